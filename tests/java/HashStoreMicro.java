import java.io.File;
import java.util.Random;
import org.apache.paimon.compression.CompressOptions;
import org.apache.paimon.io.cache.CacheManager;
import org.apache.paimon.lookup.LookupStoreFactory;
import org.apache.paimon.lookup.LookupStoreReader;
import org.apache.paimon.lookup.LookupStoreWriter;
import org.apache.paimon.lookup.hash.HashLookupStoreFactory;
import org.apache.paimon.options.MemorySize;
import org.apache.paimon.utils.BloomFilter;

/** One-thread figures of the hash lookup store of the released Paimon 0.9.0; arguments, data and output as PaimonMicro's. */
public class HashStoreMicro {
    private static byte[] key(int i) {
        byte[] out = new byte[12];
        long scattered = i * 7919L;
        for (int j = 0; j < 8; j++) {
            out[j] = (byte) (scattered >>> (56 - 8 * j));
        }
        for (int j = 0; j < 4; j++) {
            out[8 + j] = (byte) (i >>> (24 - 8 * j));
        }
        return out;
    }

    public static void main(String[] args) throws Exception {
        int n = Integer.parseInt(args[0]);
        File file = new File(args[2]);
        for (int round = 0; round < 3; round++) {
            CacheManager cache = new CacheManager(MemorySize.ofMebiBytes(1024));
            HashLookupStoreFactory factory =
                    new HashLookupStoreFactory(cache, 64 * 1024, 0.75, new CompressOptions(args[1], 1));
            long start = System.nanoTime();
            LookupStoreWriter writer = factory.createWriter(file, BloomFilter.builder(n, 0.05));
            for (int i = 0; i < n; i++) {
                writer.put(key(i), ("value-" + i + "-" + (i * 31)).getBytes());
            }
            LookupStoreFactory.Context context = writer.close();
            double put = n / ((System.nanoTime() - start) / 1e9);
            int[] asked = new Random(7).ints(n, 0, n).toArray();
            int hit = 0;
            int miss = 0;
            try (LookupStoreReader reader = factory.createReader(file, context)) {
                for (int i = 0; i < n; i++) {
                    reader.lookup(key(asked[i]));
                }
                start = System.nanoTime();
                for (int x : asked) {
                    hit += reader.lookup(key(x)) != null ? 1 : 0;
                }
                double get = n / ((System.nanoTime() - start) / 1e9);
                start = System.nanoTime();
                for (int x : asked) {
                    byte[] k = key(x);
                    k[11] ^= 0x55;
                    k[3] = 1;
                    miss += reader.lookup(k) == null ? 1 : 0;
                }
                double missed = n / ((System.nanoTime() - start) / 1e9);
                System.out.printf(
                        "{\"op\":\"hash-store\",\"n\":%d,\"compress\":\"%s\",\"bytes\":%d,\"put_per_s\":%.0f,"
                                + "\"get_per_s\":%.0f,\"miss_per_s\":%.0f,\"hit\":%d,\"miss\":%d}%n",
                        n, args[1], file.length(), put, get, missed, hit, miss);
            }
        }
    }
}
