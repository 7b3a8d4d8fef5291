// Brings the token for a client that cannot: proxy.mjs PORT TOKEN. The conformance suite knows no header of its own.
// Every header goes on as it came, so that what the server says of Host and Origin is the server's.

import { createServer, request } from "node:http";

const [port, token] = process.argv.slice(2);
const server = createServer((incoming, outgoing) => {
    const headers = { ...incoming.headers, authorization: `Bearer ${token}` };
    const onward = request({ port, host: "127.0.0.1", path: incoming.url, method: incoming.method, headers }, (answer) => {
        outgoing.writeHead(answer.statusCode, answer.headers);
        answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
