// Sends requests that a web page could cause, to a port with another protocol. Arguments: port, body.
const [port, body] = process.argv.slice(2);
for (const method of ["PUT", "POST", "PATCH", "DELETE", "SG.RESET", "put"]) {
  for (const headers of [{}, { "content-type": "text/plain" }, { "x-note": "SG.RESET default victim" }]) {
    try {
      const answer = await fetch(`http://127.0.0.1:${port}/hook`, { method, headers, body });
      console.log(method, "was answered", answer.status);
    } catch (err) {
      console.log(method, "was not answered");
    }
  }
}
