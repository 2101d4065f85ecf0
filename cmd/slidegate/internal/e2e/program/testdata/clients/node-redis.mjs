// Uses the service with node-redis, as its users do. Arguments: port, token, RESP version. Prints JSON.
import { createClient } from "redis";

const [port, token, version] = process.argv.slice(2);
const client = createClient({ socket: { host: "127.0.0.1", port: Number(port) }, password: token, RESP: Number(version) });
client.on("error", (err) => { throw err; });
await client.connect();
const allow = (key, ...cost) => ["SG.ALLOW", "default", key, ...cost];
const peek = async (key) => (await client.sendCommand(["SG.PEEK", "default", key]))[2];
const out = {};

const three = client.multi();
for (let i = 0; i < 3; i++) three.addCommand(allow("a"));
out.pipeline = (await three.exec()).map((answer) => answer[2]);

try {
  out.aborted = await client.multi().addCommand(allow("b")).addCommand(["NOSUCH"]).addCommand(allow("b")).exec();
} catch (err) {
  out.aborted = /EXECABORT|unknown command/.test(String(err)) ? "EXECABORT" : String(err);
}
out.b = await peek("b");

try {
  const answers = await client.multi().addCommand(allow("c")).addCommand(["SG.ALLOW", "nobody", "c"]).addCommand(allow("c")).exec();
  out.mixed = answers.map((answer) => answer instanceof Error);
} catch (err) { // the error contains all replies
  out.mixed = err.replies.map((answer) => answer instanceof Error);
}

const plain = client.multi();
for (let i = 0; i < 3; i++) plain.addCommand(allow("d"));
out.plain = (await plain.execAsPipeline()).map((answer) => answer[2]);

const many = client.multi();
for (let i = 0; i < 5000; i++) many.addCommand(allow("e", "0"));
out.many = (await many.exec()).length;

try {
  out.watch = await client.watch("f");
} catch (err) {
  out.watch = /not supported/.test(String(err)) ? "not supported" : String(err);
}
client.multi().addCommand(allow("g")); // without exec
out.reset = await peek("g");

await client.close();
console.log(JSON.stringify(out));
