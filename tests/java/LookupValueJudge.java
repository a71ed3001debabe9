import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.paimon.mergetree.lookup.FilePosition;
import org.apache.paimon.mergetree.lookup.PersistEmptyProcessor;
import org.apache.paimon.mergetree.lookup.PersistPositionProcessor;
import org.apache.paimon.mergetree.lookup.PersistProcessor;

/**
 * Values of lookup files without rows, as the released Paimon 1.4.2 writes and reads them. The argument names a file of positions
 * and of values of ours, one pair a line ("POSITION HEX"). Prints first the two processors' names and the size of an empty value,
 * then for each line the hex digits that Java writes and the position that Java reads from ours.
 */
public class LookupValueJudge {
    public static void main(String[] args) throws Exception {
        PersistProcessor<FilePosition> positions = PersistPositionProcessor.factory().create("v1", null, null);
        PersistProcessor<Boolean> nothing = PersistEmptyProcessor.factory().create("v1", null, null);
        System.out.println(PersistPositionProcessor.factory().identifier() + " "
                + PersistEmptyProcessor.factory().identifier() + " " + nothing.persistToDisk(null).length);
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            String[] job = line.split(" ");
            StringBuilder hex = new StringBuilder();
            for (byte b : positions.persistToDisk(null, Long.parseLong(job[0]))) {
                hex.append(String.format("%02x", b));
            }
            byte[] ours = new byte[job[1].length() / 2];
            for (int i = 0; i < ours.length; i++) {
                ours[i] = (byte) Integer.parseInt(job[1].substring(2 * i, 2 * i + 2), 16);
            }
            System.out.println(hex + " " + positions.readFromDisk(null, 0, ours, "file").rowPosition());
        }
    }
}
