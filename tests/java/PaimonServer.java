import java.io.*;
import java.nio.charset.StandardCharsets;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.*;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.*;

/**
 * Runs the witness (PaimonOracle) command after command in one JVM: a JVM of its own would spend most of its time on loading
 * classes. Each line of stdin is a JSON array of arguments; each answer a JSON object with `out` and, after a failure, `error`.
 */
public class PaimonServer {
    public static void main(String[] none) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        PrintStream answers = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            ObjectNode answer = mapper.createObjectNode();
            System.setOut(new PrintStream(printed, true, "UTF-8"));
            try {
                PaimonOracle.main(mapper.readValue(line, String[].class));
            } catch (Throwable failure) {
                StringWriter trace = new StringWriter();
                failure.printStackTrace(new PrintWriter(trace));
                answer.put("error", trace.toString());
            }
            System.out.flush();
            System.setOut(answers);
            answer.put("out", printed.toString("UTF-8"));
            answers.write(mapper.writeValueAsBytes(answer));
            answers.write('\n');
            answers.flush();
        }
    }
}
