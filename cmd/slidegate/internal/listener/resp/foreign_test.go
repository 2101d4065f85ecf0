package resp_test

import (
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
)

// Nothing that a browser or another program that fetches URLs sends is run: everything after the first line was written by a
// third party. The connection ends with an error.
func TestForeignProtocols(t *testing.T) {
	const body = "\r\n\r\n*3\r\n$8\r\nSG.RESET\r\n$7\r\ndefault\r\n$6\r\nvictim\r\n"
	var openings []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "Put", "pOST", "x", "SG.RESET", "*1"} {
		for _, version := range []string{"HTTP/1.1", "HTTP/1.0", "http/1.1", "HTTP/2", "HTTP/2.0", "Http/3 ", "HTTP/1.1\t"} {
			openings = append(openings, method+" /hook "+version+"\r\nx: y", method+"  /a?b=c  "+version+"\nno-colon")
		}
	}
	openings = append(openings,
		"PUT /\" HTTP/1.1\r\nx", "PUT /' HTTP/1.1\r\nx", " POST / HTTP/1.1", "\r\n\r\nPOST / HTTP/1.1", "PRI * HTTP/2.0\r\n\r\nSM", // spellings
		"POST", "post x", "PUT /hook", "DELETE http://127.0.0.1/hook", "OPTIONS *", // without a version
		"Host: x", "host: x", "HOST: x", "hOsT:x y\r\nhost: x", "Content-Type: text/plain", "user-agent: node", // from the middle of one
		"HTTP/1.1 200 OK", "nosuch", // of a server, and of no protocol
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "\xff\xfe", // not text
	)
	for _, tokens := range [][]string{nil, {"token"}} {
		w := open(t, resp.Options{Tokens: tokens})
		friend := w.dial(t)
		if tokens != nil {
			friend.exchange("AUTH token", "+OK")
		}
		friend.exchange("SG.ALLOW default victim 10", numbers(1, 10, 0, 0, hour, 10))
		for _, opening := range openings {
			c := w.dial(t)
			c.send(opening + body)
			if got := c.readRest(); !strings.HasPrefix(got, "-ERR Protocol error: ") || strings.Count(got, "\n") != 1 {
				t.Errorf("%q: got the reply %q, want an error about the protocol", opening, got)
			}
			friend.exchange("SG.PEEK default victim", numbers(0, 10, 0, hour, hour, 0))
		}
	}
}
