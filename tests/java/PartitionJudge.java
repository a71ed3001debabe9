import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.operation.PartitionExpire;
import org.apache.paimon.partition.actions.PartitionMarkDoneAction;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.utils.JsonSerdeUtil;

/**
 * Partitions of a table as the released Paimon expires and marks them.
 *
 * <pre>
 * expire TABLE [OPTION=VALUE...]   drop what has expired now; prints each dropped partition as JSON, sorted
 * done   TABLE PARTITION           mark k=v/k=v/ done by the actions of the table's options
 * </pre>
 */
public class PartitionJudge {
    public static void main(String[] args) throws Exception {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(args[1]));
        if (args[0].equals("done")) {
            CoreOptions options = table.coreOptions();
            ClassLoader loader = PartitionJudge.class.getClassLoader();
            for (PartitionMarkDoneAction action : PartitionMarkDoneAction.createActions(loader, table, options)) {
                action.markDone(args[2]);
            }
            return;
        }
        Map<String, String> options = new HashMap<>();
        options.put("partition.expiration-check-interval", "0 ms");
        for (int i = 2; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            options.put(pair[0], pair[1]);
        }
        FileStoreTable asked = table.copy(options);
        PartitionExpire expire = asked.store().newPartitionExpire("judge", asked);
        List<Map<String, String>> dropped = expire.expire(Long.MAX_VALUE);
        List<String> lines = new ArrayList<>();
        for (Map<String, String> each : dropped == null ? new ArrayList<Map<String, String>>() : dropped) {
            lines.add(JsonSerdeUtil.toFlatJson(new TreeMap<>(each)));
        }
        lines.stream().sorted().forEach(System.out::println);
    }
}
