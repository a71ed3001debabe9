import java.io.BufferedWriter;
import java.io.File;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.paimon.compression.CompressOptions;
import org.apache.paimon.io.cache.CacheManager;
import org.apache.paimon.lookup.LookupStoreReader;
import org.apache.paimon.lookup.LookupStoreWriter;
import org.apache.paimon.lookup.hash.HashContext;
import org.apache.paimon.lookup.hash.HashLookupStoreFactory;
import org.apache.paimon.options.MemorySize;
import org.apache.paimon.utils.BloomFilter;

/**
 * The hash lookup store of the released Paimon 0.9.0 as a witness. The argument names a file of jobs, one a line, tab-separated:
 *
 * <pre>
 * read   STORE KEYS    CODEC PAGE_SIZE LOAD CONTEXT ANSWERS
 * write  STORE ENTRIES CODEC PAGE_SIZE LOAD CONTEXT FPP EXPECTED
 * </pre>
 *
 * CONTEXT: the ten fields of HashContext in order, one a line, arrays separated by blanks ("null" for no array). KEYS, ENTRIES and
 * ANSWERS as in SortStoreJudge. EXPECTED 0: no filter.
 */
public class HashStoreJudge {
    private static final String[] FIELDS = {
        "bloomFilterEnabled", "bloomFilterExpectedEntries", "bloomFilterBytes", "keyCounts", "slotSizes", "slots",
        "indexOffsets", "dataOffsets", "uncompressBytes", "compressPages"
    };

    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            String[] job = line.split("\t");
            CacheManager cache = new CacheManager(MemorySize.ofMebiBytes(64));
            HashLookupStoreFactory factory = new HashLookupStoreFactory(
                    cache, Integer.parseInt(job[4]), Double.parseDouble(job[5]), new CompressOptions(job[3], 1));
            if (job[0].equals("read")) {
                read(factory, job);
            } else {
                write(factory, job);
            }
        }
    }

    private static void read(HashLookupStoreFactory factory, String[] job) throws Exception {
        List<String> fields = Files.readAllLines(Paths.get(job[6]));
        HashContext context = new HashContext(
                Boolean.parseBoolean(fields.get(0)), Long.parseLong(fields.get(1)), Integer.parseInt(fields.get(2)),
                ints(fields.get(3)), ints(fields.get(4)), ints(fields.get(5)), ints(fields.get(6)),
                longs(fields.get(7)), Long.parseLong(fields.get(8)), longs(fields.get(9)));
        try (LookupStoreReader reader = factory.createReader(new File(job[1]), context);
                BufferedWriter answers = Files.newBufferedWriter(Paths.get(job[7]))) {
            for (String key : Files.readAllLines(Paths.get(job[2]))) {
                byte[] value = reader.lookup(bytes(key));
                answers.write(value == null ? "absent\n" : "= " + hex(value) + "\n");
            }
        }
    }

    private static void write(HashLookupStoreFactory factory, String[] job) throws Exception {
        long expected = Long.parseLong(job[8]);
        BloomFilter.Builder filter = expected == 0 ? null : BloomFilter.builder(expected, Double.parseDouble(job[7]));
        LookupStoreWriter writer = factory.createWriter(new File(job[1]), filter);
        for (String entry : Files.readAllLines(Paths.get(job[2]))) {
            String[] both = entry.split(" ", -1);
            writer.put(bytes(both[0]), bytes(both[1]));
        }
        HashContext context = (HashContext) writer.close();
        try (BufferedWriter out = Files.newBufferedWriter(Paths.get(job[6]))) {
            for (String name : FIELDS) {
                Field field = HashContext.class.getDeclaredField(name);
                field.setAccessible(true);
                Object value = field.get(context);
                if (value instanceof int[]) {
                    value = Arrays.stream((int[]) value).mapToObj(String::valueOf).collect(Collectors.joining(" "));
                } else if (value instanceof long[]) {
                    value = Arrays.stream((long[]) value).mapToObj(String::valueOf).collect(Collectors.joining(" "));
                }
                out.write(value + "\n");
            }
        }
    }

    private static int[] ints(String line) {
        return Arrays.stream(line.trim().split(" ")).filter(s -> !s.isEmpty()).mapToInt(Integer::parseInt).toArray();
    }

    private static long[] longs(String line) {
        if (line.equals("null")) {
            return null;
        }
        return Arrays.stream(line.trim().split(" ")).filter(s -> !s.isEmpty()).mapToLong(Long::parseLong).toArray();
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
