import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.options.Options;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.system.SystemTableLoader;
import org.apache.paimon.types.DataField;

/**
 * Rows of system tables, of a table or (sys.tables) of a warehouse. The argument names a file of jobs, one a line, tab-separated:
 *
 * <pre>
 * TABLE|WAREHOUSE SYSTEM OUT [option=value ...]    OUT: a line "name type, ..." of the columns, then the rows as JSON; or "ERR message"
 * </pre>
 */
public class ChangesJudge {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            String[] job = line.split("\t");
            List<String> out = new ArrayList<>();
            try {
                Table table = system(job);
                List<String> columns = new ArrayList<>();
                for (DataField f : table.rowType().getFields()) columns.add(f.name() + " " + f.type());
                out.add(String.join(", ", columns));
                read(table, row -> out.add(json(row, table)));
            } catch (Throwable e) {
                out.clear();
                out.add("ERR " + String.valueOf(e).replace('\n', ' '));
            }
            Files.write(Paths.get(job[2]), out);
        }
    }

    interface Rows {
        void take(InternalRow row);
    }

    private static Table system(String[] job) throws Exception {
        if (job[1].startsWith("sys.")) {
            Options options = new Options();
            options.set("warehouse", job[0]);
            return CatalogFactory.createCatalog(CatalogContext.create(options)).getTable(Identifier.fromString(job[1]));
        }
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(job[0]));
        Map<String, String> dynamic = new HashMap<>();
        for (int i = 3; i < job.length; i++) {
            String[] option = job[i].split("=", 2);
            dynamic.put(option[0], option[1]);
        }
        return SystemTableLoader.load(job[1], (FileStoreTable) table.copy(dynamic));
    }

    private static String json(InternalRow row, Table table) {
        try {
            return MAPPER.writeValueAsString(PaimonOracle.obj(row, table.rowType()));
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    }

    private static void read(Table table, Rows rows) throws Exception {
        ReadBuilder builder = table.newReadBuilder();
        IOManager disk = IOManager.create(System.getProperty("java.io.tmpdir"));
        for (Split split : builder.newScan().plan().splits()) {
            try (RecordReader<InternalRow> reader = builder.newRead().withIOManager(disk).createReader(split)) {
                reader.forEachRemaining(rows::take);
            }
        }
    }
}
