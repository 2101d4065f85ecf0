package main

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// wrkPrinted is the output of wrk 4.1.
const wrkPrinted = `Running 2s test @ http://127.0.0.1:40000/
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   604.04us  581.10us  11.10ms   92.09%
    Req/Sec    52.09k     5.60k   58.47k    80.00%
  103642 requests in 2.00s, 13.44MB read
Requests/sec:  51810.52
Transfer/sec:      6.72MB
`

func TestReadWrk(t *testing.T) {
	requests, perSecond, err := readWrk([]byte(wrkPrinted))
	if requests != 103642 || perSecond != 51810.52 || err != nil {
		t.Errorf("readWrk = %v, %v, %v, want 103642, 51810.52", requests, perSecond, err)
	}
	for _, c := range []struct{ text, want string }{
		{wrkPrinted + "  Non-2xx or 3xx responses: 7\n", "Non-2xx"},
		{"  Socket errors: connect 0, read 3, write 0, timeout 0\n" + wrkPrinted, "Socket errors"},
		{"unable to connect to 127.0.0.1:40000 Connection refused\n", "cannot parse"},
		{strings.Replace(wrkPrinted, "103642", "0", 1), "cannot parse"},
	} {
		if _, _, err := readWrk([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// The two servers of a row must send the same response except for values, or their difference would not be that of the middleware.
func TestWireServersSendEqualResponses(t *testing.T) {
	for _, pair := range wirePairs() {
		plain, limits := wireResponse(t, pair.plain), wireResponse(t, pair.limits)
		if plain.StatusCode != 200 || limits.StatusCode != 200 {
			t.Errorf("%s: got statuses %d and %d, want 200", pair.name, plain.StatusCode, limits.StatusCode)
		}
		a, b := slices.Sorted(maps.Keys(plain.Header)), slices.Sorted(maps.Keys(limits.Header))
		if !slices.Equal(a, b) {
			t.Errorf("%s: got headers %q and %q, want the same", pair.name, a, b)
		}
		for name := range plain.Header {
			if one, other := plain.Header.Get(name), limits.Header.Get(name); len(one) != len(other) {
				t.Errorf("%s: %s: got %q and %q, want equal lengths", pair.name, name, one, other)
			}
		}
	}
}

// wireResponse sends one request to a server. The server must also report its CPU time, and end when its standard input does.
func wireResponse(t *testing.T, kind string) *http.Response {
	t.Helper()
	server, err := startWireServer(kind)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get(server.url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != string(greeting) {
		t.Errorf("%s: got %q, %v, want %q", kind, body, err, greeting)
	}
	_, ok := cpuTime()
	if worked, err := server.cpu(); err != nil || ok && worked <= 0 {
		t.Errorf("%s: got CPU time %v, %v, want more than 0", kind, worked, err)
	}
	server.stop()
	if status := server.process.ProcessState; !status.Success() {
		t.Errorf("%s: got %v, want exit status 0", kind, status)
	}
	return response
}

func TestUnknownServer(t *testing.T) {
	if status := serveWire("nonsense", strings.NewReader(""), io.Discard); status != 2 {
		t.Errorf("exit status %d, want 2", status)
	}
}
