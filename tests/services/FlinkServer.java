import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/** A Flink session cluster with its REST in this process, and a door that runs SQL statements on it. */
public final class FlinkServer {
    private static final Pattern SET = Pattern.compile("SET\\s+'([^']+)'\\s*=\\s*'([^']*)'", Pattern.CASE_INSENSITIVE);

    private static String restPort;

    public static void main(String[] arguments) throws Exception {
        restPort = arguments[0];
        Configuration settings = new Configuration();
        settings.setString("rest.address", "127.0.0.1");
        settings.setString("rest.bind-address", "127.0.0.1");
        settings.setString("rest.port", restPort);
        settings.setString("rest.bind-port", restPort);
        settings.setString("taskmanager.memory.managed.size", "32m");
        for (String line : Files.readAllLines(Path.of(arguments[2]))) {
            int at = line.indexOf('=');
            if (at > 0) {
                settings.setString(line.substring(0, at), line.substring(at + 1));
            }
        }
        MiniCluster cluster =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(settings)
                                .setNumTaskManagers(1)
                                .setNumSlotsPerTaskManager(8)
                                .build());
        cluster.start();
        HttpServer door = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[1])), 16);
        door.setExecutor(Executors.newSingleThreadExecutor());
        door.createContext("/", FlinkServer::serve);
        door.start();
    }

    private static void serve(HttpExchange exchange) throws IOException {
        String text = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        int status = 200;
        String answer;
        try {
            answer = run(text);
        } catch (Throwable refused) {
            StringWriter trace = new StringWriter();
            refused.printStackTrace(new PrintWriter(trace));
            status = 400;
            answer = trace.toString();
        }
        byte[] bytes = answer.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }

    /** Runs statements that are separated by a semicolon at the end of a line; the ids of the jobs, a line each. */
    private static String run(String text) {
        Configuration settings = new Configuration();
        settings.setString("execution.target", "remote");
        settings.setString("rest.address", "127.0.0.1");
        settings.setString("rest.port", restPort);
        TableEnvironment tables =
                TableEnvironment.create(
                        EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(settings).build());
        StringBuilder jobs = new StringBuilder();
        for (String statement : text.split(";\\s*(\\n|$)")) {
            if (statement.isBlank()) {
                continue;
            }
            Matcher set = SET.matcher(statement.strip());
            if (set.matches()) {
                tables.getConfig().set(set.group(1), set.group(2));
                continue;
            }
            TableResult result = tables.executeSql(statement);
            result.getJobClient().ifPresent(job -> jobs.append(job.getJobID()).append('\n'));
        }
        return jobs.toString();
    }
}
