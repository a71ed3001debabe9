import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.paimon.FileStore;
import org.apache.paimon.Snapshot;
import org.apache.paimon.consumer.Consumer;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.manifest.IndexManifestFile;
import org.apache.paimon.manifest.ManifestFile;
import org.apache.paimon.manifest.ManifestList;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaManager;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.stats.Statistics;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.tag.Tag;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.InternalRowPartitionComputer;
import org.apache.paimon.utils.JsonSerdeUtil;
import org.apache.paimon.utils.PartitionPathUtils;
import org.apache.paimon.utils.SerializationUtils;

/**
 * Metadata of the released Paimon 1.4.2 as a witness. The argument names a file of jobs, one a line, tab-separated:
 *
 * <pre>
 * json   KIND IN OUT            read a schema, snapshot, tag, consumer or statistics file and write it again
 * avro   KIND TABLE NAME OUT    read a manifest, list or index of a table, write it again, OUT gets the new name
 * names  IN OUT                 IN: type JSON, legacy (true/false), hex of a row of one column; OUT: directory names
 * create IN OUT                 IN: schema JSON a line; OUT: "OK" or "ERR message"
 * </pre>
 */
public class MetadataJudge {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            String[] job = line.split("\t");
            switch (job[0]) {
                case "json":
                    write(job[3], json(job[1], Files.readString(Paths.get(job[2]))));
                    break;
                case "avro":
                    write(job[4], avro(job[1], job[2], job[3]));
                    break;
                case "names":
                    eachLine(job[1], job[2], MetadataJudge::name);
                    break;
                default:
                    eachLine(job[1], job[2], MetadataJudge::create);
            }
        }
    }

    interface Answer {
        String to(String line) throws Exception;
    }

    private static void eachLine(String in, String out, Answer answer) throws Exception {
        List<String> lines = new ArrayList<>();
        for (String line : Files.readAllLines(Paths.get(in))) {
            String said;
            try {
                said = answer.to(line);
            } catch (Throwable e) {
                said = "ERR " + e;
            }
            lines.add(said.replace('\n', ' '));
        }
        Files.write(Paths.get(out), lines);
    }

    private static void write(String file, String text) throws Exception {
        Files.writeString(Paths.get(file), text);
    }

    private static String json(String kind, String text) {
        switch (kind) {
            case "schema":
                return TableSchema.fromJson(text).toString();
            case "snapshot":
                return Snapshot.fromJson(text).toJson();
            case "tag":
                return Tag.fromJson(text).toJson();
            case "consumer":
                return Consumer.fromJson(text).toJson();
            default:
                return Statistics.fromJson(text).toJson();
        }
    }

    private static String avro(String kind, String root, String name) throws Exception {
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), new Path(root));
        FileStore<?> store = table.store();
        switch (kind) {
            case "manifest":
                ManifestFile manifest = store.manifestFileFactory().create();
                return manifest.write(manifest.read(name)).get(0).fileName();
            case "list":
                ManifestList list = store.manifestListFactory().create();
                return list.write(list.read(name)).getLeft();
            default:
                IndexManifestFile index = store.indexManifestFileFactory().create();
                return index.writeWithoutRolling(index.read(name));
        }
    }

    private static String name(String line) throws Exception {
        String[] parts = line.split("\t");
        DataType type = JsonSerdeUtil.fromJson(parts[0], DataType.class);
        RowType row = RowType.of(new DataType[] {type}, new String[] {"k"});
        InternalRowPartitionComputer computer =
                new InternalRowPartitionComputer("__D__", row, new String[] {"k"}, Boolean.parseBoolean(parts[1]));
        byte[] bytes = HexFormat.of().parseHex(parts[2]);
        return PartitionPathUtils.generatePartitionPath(
                computer.generatePartValues(SerializationUtils.deserializeBinaryRow(bytes)));
    }

    @SuppressWarnings("unchecked")
    private static String create(String line) throws Exception {
        Map<String, Object> spec = JsonSerdeUtil.fromJson(line, Map.class);
        Schema.Builder builder = Schema.newBuilder();
        for (Map<String, Object> field : (List<Map<String, Object>>) spec.get("fields")) {
            String type = JsonSerdeUtil.toJson(field.get("type"));
            builder.column((String) field.get("name"), JsonSerdeUtil.fromJson(type, DataType.class));
        }
        builder.primaryKey((List<String>) spec.get("primaryKeys"));
        builder.partitionKeys((List<String>) spec.get("partitionKeys"));
        builder.options((Map<String, String>) spec.get("options"));
        String root = Files.createTempDirectory("lakeidx-judge") + "/t";
        new SchemaManager(LocalFileIO.create(), new Path(root)).createTable(builder.build());
        return "OK";
    }
}
