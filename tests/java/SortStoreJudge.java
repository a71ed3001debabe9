import java.io.BufferedWriter;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.paimon.compression.CompressOptions;
import org.apache.paimon.data.serializer.RowCompactedSerializer;
import org.apache.paimon.io.cache.CacheManager;
import org.apache.paimon.lookup.sort.SortLookupStoreFactory;
import org.apache.paimon.lookup.sort.SortLookupStoreReader;
import org.apache.paimon.lookup.sort.SortLookupStoreWriter;
import org.apache.paimon.memory.MemorySlice;
import org.apache.paimon.options.MemorySize;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeJsonParser;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.BloomFilter;

/**
 * The sort lookup store of the released Paimon 1.4.2 as a witness. The argument names a file of jobs, one a line, tab-separated:
 *
 * <pre>
 * read   STORE KEYS    TYPES ANSWERS
 * write  STORE ENTRIES TYPES CODEC LEVEL BLOCK_SIZE FPP EXPECTED
 * </pre>
 *
 * KEYS: a hex key a line. ENTRIES: key and value in hex, separated by a blank. ANSWERS, written: "absent" or "= hex" a line. TYPES:
 * SQL types separated by ';', or "-" for plain bytes. EXPECTED 0: no filter.
 */
public class SortStoreJudge {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            String[] job = line.split("\t");
            if (job[0].equals("read")) {
                read(job);
            } else {
                write(job);
            }
        }
    }

    private static SortLookupStoreFactory factory(String types, String codec, int level, int blockSize) {
        Comparator<MemorySlice> order = Comparator.naturalOrder();
        if (!types.equals("-")) {
            List<DataType> fields = new ArrayList<>();
            for (String type : types.split(";")) {
                fields.add(DataTypeJsonParser.parseAtomicTypeSQLString(type));
            }
            order = new RowCompactedSerializer(RowType.of(fields.toArray(new DataType[0]))).createSliceComparator();
        }
        CacheManager cache = new CacheManager(MemorySize.ofMebiBytes(64), 0);
        return new SortLookupStoreFactory(order, cache, blockSize, new CompressOptions(codec, level));
    }

    private static void read(String[] job) throws Exception {
        try (org.apache.paimon.lookup.LookupStoreReader reader = factory(job[3], "none", 1, 65536).createReader(new File(job[1]));
                BufferedWriter answers = Files.newBufferedWriter(Paths.get(job[4]))) {
            for (String key : Files.readAllLines(Paths.get(job[2]))) {
                byte[] value = reader.lookup(bytes(key));
                answers.write(value == null ? "absent\n" : "= " + hex(value) + "\n");
            }
        }
    }

    private static void write(String[] job) throws Exception {
        long expected = Long.parseLong(job[8]);
        BloomFilter.Builder filter = expected == 0 ? null : filter(expected, Double.parseDouble(job[7]));
        SortLookupStoreFactory factory = factory(job[3], job[4], Integer.parseInt(job[5]), Integer.parseInt(job[6]));
        try (org.apache.paimon.lookup.LookupStoreWriter writer = factory.createWriter(new File(job[1]), filter)) {
            for (String entry : Files.readAllLines(Paths.get(job[2]))) {
                String[] both = entry.split(" ", -1);
                writer.put(bytes(both[0]), bytes(both[1]));
            }
        }
    }

    // `builder` in 1.4.2, `fixedBuilder` in 2.1.
    private static BloomFilter.Builder filter(long expected, double fpp) throws Exception {
        for (java.lang.reflect.Method m : BloomFilter.class.getMethods()) {
            if (m.getName().equals("builder") || m.getName().equals("fixedBuilder")) {
                return (BloomFilter.Builder) m.invoke(null, expected, fpp);
            }
        }
        throw new NoSuchMethodException("BloomFilter.builder");
    }

    private static byte[] bytes(String hex) {
        byte[] out = new byte[hex.length() / 2];
        for (int i = 0; i < out.length; i++) {
            out[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return out;
    }

    private static String hex(byte[] data) {
        StringBuilder out = new StringBuilder();
        for (byte b : data) {
            out.append(String.format("%02x", b));
        }
        return out.toString();
    }
}
