import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.manifest.BucketEntry;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.system.SystemTableLoader;

/**
 * Changes by the released Java Paimon, for benchmarks:
 *
 * <pre>
 * read  TABLE THREADS ROUNDS option=value...  rows of audit_log; prints rows and seconds of each round
 * write SOURCE THREADS FULL TABLE...          upserts the rows of SOURCE, held in memory, into each table, and compacts:
 *                                             nothing (no), what the producer asks for (yes), or all (full); prints seconds of each
 * tail  TABLE FIRST EVERY_MS COMMITS          follows audit_log from a snapshot on; prints "ready", then rows and epoch ms of
 *                                             each step that has rows, when they are read
 * </pre>
 */
public class ChangesMicro {
    public static void main(String[] a) throws Exception {
        if (a[0].equals("read")) read(a);
        else if (a[0].equals("write")) write(a);
        else tail(a);
        System.exit(0);
    }

    private static FileStoreTable table(String root, Map<String, String> options) {
        return (FileStoreTable) FileStoreTableFactory.create(LocalFileIO.create(), new Path(root)).copy(options);
    }

    private static Table auditLog(String root, Map<String, String> options) {
        return SystemTableLoader.load("audit_log", table(root, options));
    }

    private static IOManager disk() {
        return IOManager.create(System.getProperty("java.io.tmpdir"));
    }

    private static void read(String[] a) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int i = 4; i < a.length; i++) options.put(a[i].split("=", 2)[0], a[i].split("=", 2)[1]);
        for (int round = 0; round < Integer.parseInt(a[3]); round++) {
            long start = System.nanoTime();
            ReadBuilder builder = auditLog(a[1], options).newReadBuilder();
            long rows = rows(builder, builder.newScan().plan().splits(), Integer.parseInt(a[2]));
            System.out.println(rows + " " + (System.nanoTime() - start) / 1e9);
        }
    }

    /** Reads all rows of splits, every field of each. */
    private static long rows(ReadBuilder builder, List<Split> splits, int threads) throws Exception {
        InternalRow.FieldGetter[] getters = new InternalRow.FieldGetter[builder.readType().getFieldCount()];
        for (int i = 0; i < getters.length; i++) getters[i] = InternalRow.createFieldGetter(builder.readType().getTypeAt(i), i);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<Long>> parts = new ArrayList<>();
        for (Split split : splits) parts.add(pool.submit(() -> {
            long[] rows = {0, 0};
            try (RecordReader<InternalRow> reader = builder.newRead().withIOManager(disk()).createReader(split)) {
                reader.forEachRemaining(row -> {
                    rows[0]++;
                    for (InternalRow.FieldGetter getter : getters) if (getter.getFieldOrNull(row) != null) rows[1]++;
                });
            }
            return rows[0];
        }));
        long rows = 0;
        for (Future<Long> part : parts) rows += part.get();
        pool.shutdown();
        return rows;
    }

    private static void tail(String[] a) throws Exception {
        ReadBuilder builder =
                auditLog(a[1], Map.of("scan.mode", "from-snapshot", "scan.snapshot-id", a[2])).newReadBuilder();
        StreamTableScan scan = builder.newStreamScan();
        scan.plan();
        System.out.println("ready");
        for (int steps = 0; steps < Integer.parseInt(a[4]); ) {
            List<Split> splits = scan.plan().splits();
            long rows = splits.isEmpty() ? 0 : rows(builder, splits, 1);
            if (rows > 0) {
                System.out.println(rows + " " + System.currentTimeMillis());
                steps++;
            } else Thread.sleep(Long.parseLong(a[3]));
        }
    }

    private static void write(String[] a) throws Exception {
        FileStoreTable source = table(a[1], Map.of());
        InternalRowSerializer copies = new InternalRowSerializer(source.rowType());
        List<InternalRow> rows = new ArrayList<>();
        ReadBuilder builder = source.newReadBuilder();
        for (Split split : builder.newScan().plan().splits())
            try (RecordReader<InternalRow> reader = builder.newRead().createReader(split)) {
                reader.forEachRemaining(row -> rows.add(copies.toBinaryRow(row).copy()));
            }
        for (int i = 4; i < a.length; i++) {
            FileStoreTable target = table(a[i], Map.of("write-only", String.valueOf(a[3].equals("no"))));
            long start = System.nanoTime();
            upsert(target, rows, Integer.parseInt(a[2]), a[3].equals("full"));
            System.out.println((System.nanoTime() - start) / 1e9);
        }
    }

    private static void upsert(FileStoreTable t, List<InternalRow> rows, int threads, boolean full) throws Exception {
        String user = "bench-" + UUID.randomUUID();
        RowPartitionKeyExtractor keys = new RowPartitionKeyExtractor(t.schema());
        HashBucketAssigner assigner = new HashBucketAssigner(
                t.snapshotManager(), user, t.store().newIndexFileHandler(), 1, 1, 0,
                t.coreOptions().dynamicBucketTargetRowNum(), t.coreOptions().dynamicBucketMaxBuckets());
        int[] buckets = new int[rows.size()];
        for (int i = 0; i < buckets.length; i++)
            buckets[i] = assigner.assign(BinaryRow.EMPTY_ROW, keys.trimmedPrimaryKey(rows.get(i)).hashCode());
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<List<CommitMessage>>> parts = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            int mine = thread;
            parts.add(pool.submit(() -> {
                try (BatchTableWrite w =
                        (BatchTableWrite) t.newWrite(user).withIgnorePreviousFiles(false).withIOManager(disk())) {
                    for (int i = 0; i < buckets.length; i++) if (buckets[i] % threads == mine) w.write(rows.get(i), buckets[i]);
                    if (full) {
                        // Those that are there, and those that only this batch has.
                        Set<Integer> all = new TreeSet<>();
                        for (BucketEntry e : t.newSnapshotReader().bucketEntries()) all.add(e.bucket());
                        for (int bucket : buckets) all.add(bucket);
                        for (int bucket : all)
                            if (bucket % threads == mine) w.compact(BinaryRow.EMPTY_ROW, bucket, true);
                    }
                    return w.prepareCommit();
                }
            }));
        }
        List<CommitMessage> messages = new ArrayList<>();
        for (Future<List<CommitMessage>> part : parts) messages.addAll(part.get());
        pool.shutdown();
        try (BatchTableCommit commit = (BatchTableCommit) t.newCommit(user)) {
            commit.commit(messages);
        }
    }
}
