import java.util.*;
import java.util.concurrent.*;
import org.apache.paimon.catalog.*;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.options.Options;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.*;
import org.apache.paimon.types.RowType;

/**
 * Merge-on-read scan by the released Java Paimon, splits spread over threads in one warm JVM:
 * ScanMicro WAREHOUSE DB.TABLE COLUMN[,COLUMN]|all SUMMED THREADS ROUNDS. Every field of every row is taken out.
 * Prints rows, sum of SUMMED and seconds of each round, one line per round.
 */
public class ScanMicro {
    static long sink;

    public static void main(String[] a) throws Exception {
        Options o = new Options();
        o.set("warehouse", a[0]);
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(o));
        int threads = Integer.parseInt(a[4]);
        for (int round = 0; round < Integer.parseInt(a[5]); round++) {
            long start = System.nanoTime();
            Table table = catalog.getTable(Identifier.fromString(a[1]));
            RowType all = table.rowType();
            int[] columns = a[2].equals("all")
                ? java.util.stream.IntStream.range(0, all.getFieldCount()).toArray()
                : Arrays.stream(a[2].split(",")).mapToInt(all::getFieldIndex).toArray();
            RowType type = all.project(columns);
            int summed = type.getFieldIndex(a[3]);
            InternalRow.FieldGetter[] getters = new InternalRow.FieldGetter[columns.length];
            for (int i = 0; i < columns.length; i++) getters[i] = InternalRow.createFieldGetter(type.getTypeAt(i), i);
            ReadBuilder builder = table.newReadBuilder().withProjection(columns);
            ExecutorService pool = Executors.newFixedThreadPool(threads);
            List<Future<long[]>> parts = new ArrayList<>();
            for (Split split : builder.newScan().plan().splits()) parts.add(pool.submit(() -> {
                long rows = 0, sum = 0, seen = 0;
                try (RecordReader<InternalRow> reader = builder.newRead().createReader(split)) {
                    for (RecordReader.RecordIterator<InternalRow> batch = reader.readBatch(); batch != null; batch = reader.readBatch()) {
                        for (InternalRow row = batch.next(); row != null; row = batch.next()) {
                            rows++;
                            for (InternalRow.FieldGetter g : getters) if (g.getFieldOrNull(row) != null) seen++;
                            sum += row.getLong(summed);
                        }
                        batch.releaseBatch();
                    }
                }
                return new long[] {rows, sum, seen};
            }));
            long rows = 0, sum = 0;
            for (Future<long[]> part : parts) { long[] p = part.get(); rows += p[0]; sum += p[1]; sink += p[2]; }
            pool.shutdown();
            System.out.println(rows + " " + sum + " " + (System.nanoTime() - start) / 1e9);
        }
        System.exit(0);
    }
}
