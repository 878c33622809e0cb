import com.hivemq.embedded.EmbeddedExtension;
import com.hivemq.embedded.EmbeddedHiveMQ;
import com.hivemq.extension.sdk.api.ExtensionMain;
import com.hivemq.extension.sdk.api.auth.SimpleAuthenticator;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartOutput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopOutput;
import com.hivemq.extension.sdk.api.services.Services;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * HiveMQ CE as a process of its own. Maven Central has only the library that is embedded into other
 * programs.
 */
public final class Broker {
    /** Admits every client: without an extension that decides, HiveMQ admits none. */
    private static final class AdmitAll implements ExtensionMain {
        @Override
        public void extensionStart(ExtensionStartInput input, ExtensionStartOutput output) {
            SimpleAuthenticator admit = (client, decision) -> decision.authenticateSuccessfully();
            Services.securityRegistry().setAuthenticatorProvider(unused -> admit);
        }

        @Override
        public void extensionStop(ExtensionStopInput input, ExtensionStopOutput output) {}
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 2) {
            System.err.println("usage: hivemq-ce CONFIG-FOLDER DATA-FOLDER");
            System.exit(64);
        }
        Path data = Files.createDirectories(Path.of(arguments[1]));
        EmbeddedExtension extension = EmbeddedExtension.builder()
                .withId("admit-all")
                .withName("Admits every client")
                .withVersion("1")
                .withExtensionMain(new AdmitAll())
                .build();
        EmbeddedHiveMQ broker = EmbeddedHiveMQ.builder()
                .withConfigurationFolder(Path.of(arguments[0]))
                .withDataFolder(data)
                .withExtensionsFolder(Files.createDirectories(data.resolve("extensions")))
                .withEmbeddedExtension(extension)
                .build();
        broker.start().join();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> broker.stop().join()));
        System.out.println("hivemq-ce: listening");
    }
}
