package program_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

const clientsToken = "0123456789abcdef"

// clients is the folder of the scripts, and of the node packages that make deps installs.
const clients = "testdata/clients"

// need skips the test because something is missing, unless TEST_REQUIRE names it: then the test fails.
func need(t *testing.T, name, what string) {
	t.Helper()
	testkit.Missing(t, name, what+" is missing; make test installs it")
}

// script runs one of the scripts with an interpreter, and returns what it printed.
func script(t *testing.T, interpreter, file string, args ...string) []byte {
	t.Helper()
	path, err := exec.LookPath(interpreter)
	installed, name := "/usr/lib/python3/dist-packages/redis", "redis-py"
	if interpreter == "node" {
		installed, name = filepath.Join(clients, "node_modules", "redis"), "node"
	}
	if err != nil {
		need(t, name, interpreter)
	}
	if _, err := os.Stat(installed); err != nil {
		need(t, name, installed)
	}
	c := exec.CommandContext(t.Context(), path, append([]string{file}, args...)...)
	c.Dir = clients
	var output strings.Builder
	c.Stderr = &output
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v: %s%s", interpreter, file, err, output.String(), out)
	}
	return out
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestPipelinesOfClients uses the most common clients' primary way to send many commands, which is a transaction: every reply
// arrives, and a transaction that is rejected as a whole charges nothing.
func TestPipelinesOfClients(t *testing.T) {
	want := map[string]any{
		"pipeline": []any{9.0, 8.0, 7.0},
		"aborted":  "EXECABORT", "b": 10.0,
		"mixed": []any{false, true, false},
		"plain": []any{9.0, 8.0, 7.0},
		"many":  5000.0,
		"watch": "not supported",
		"reset": 10.0,
	}
	for _, c := range []struct {
		name, interpreter, script string
		args                      []string
	}{
		{"redis-py", "/usr/bin/python3", "redis-py.py", nil}, // the Python that Debian's packages are installed for
		{"node-redis in RESP2", "node", "node-redis.mjs", []string{"2"}},
		{"node-redis in RESP3", "node", "node-redis.mjs", []string{"3"}},
		{"ioredis", "node", "ioredis.mjs", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			listeners := serve(t, "--limit", "10/1h", "--tokens-file", write(t, "tokens", clientsToken+"\n"))
			out := script(t, c.interpreter, c.script, append([]string{portOf(t, listeners["resp"]), clientsToken}, c.args...)...)
			var got map[string]any
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for name, value := range want {
				if !reflect.DeepEqual(got[name], value) {
					t.Errorf("%s: %v, want %v", name, got[name], value)
				}
			}
		})
	}
}

// redisCLI runs redis-cli with typed input.
func redisCLI(t *testing.T, address, typed string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("redis-cli")
	if err != nil {
		need(t, "redis-server", "redis-cli")
	}
	c := exec.CommandContext(t.Context(), path, append([]string{"-h", "127.0.0.1", "-p", portOf(t, address)}, args...)...)
	c.Stdin = strings.NewReader(typed)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli: %v: %s", err, out)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

func TestTransactionOfRedisCLI(t *testing.T) {
	listeners := serve(t, "--limit", "10/1h fixed-window anchor=first")
	for _, protocol := range []string{"-2", "-3"} {
		got := redisCLI(t, listeners["resp"], "MULTI\nSG.ALLOW default k"+protocol+" 0\nPING\nEXEC\nMULTI\nSG.ALLOW default k\nNOSUCH\nEXEC\nSG.PEEK default k\n", protocol)
		want := "OK QUEUED QUEUED 1 10 10 0 0 0 PONG OK QUEUED ERR unknown command 'NOSUCH' " +
			"EXECABORT Transaction discarded because of previous errors. 1 10 10 0 0 0"
		if got != want {
			t.Errorf("redis-cli %s: %q, want %q", protocol, got, want)
		}
	}
}

// TestHTTPToRESP sends HTTP requests to the port for Redis clients: no part of them is run as a command, whichever program sends
// them.
func TestHTTPToRESP(t *testing.T) {
	listeners := serve(t, "--limit", "3/1h")
	const body = "x\r\n*3\r\n$8\r\nSG.RESET\r\n$7\r\ndefault\r\n$6\r\nvictim\r\n"
	taken := "1 3 0 0"
	if got := redisCLI(t, listeners["resp"], "", "SG.ALLOW", "default", "victim", "3"); !strings.HasPrefix(got, taken) {
		t.Fatalf("SG.ALLOW: %q", got)
	}
	held := func(what string) {
		t.Helper()
		if got := redisCLI(t, listeners["resp"], "", "SG.PEEK", "default", "victim"); !strings.HasPrefix(got, "0 3 0 ") {
			t.Errorf("%s reset the key: %q", what, got)
		}
	}
	if out := string(script(t, "node", "fetch.mjs", portOf(t, listeners["resp"]), body)); strings.Contains(out, "was answered") || !strings.Contains(out, "PUT was not answered") {
		t.Errorf("node: %s", out)
	}
	held("node's fetch")
	curl, err := exec.LookPath("curl")
	if err != nil {
		need(t, "curl", "curl")
	}
	for _, args := range [][]string{
		{"-X", "PUT"}, {"-X", "post"}, {"-X", "DELETE", "-H", "host: x"}, {"-X", "X", "-H", "Host:"}, {"--http1.0", "-X", "PATCH"},
		{"--http2-prior-knowledge"}, {"-X", "PUT", "-H", "Host:", "-H", "User-Agent:", "-H", "Accept:", "-H", "Content-Type:"},
	} {
		c := exec.CommandContext(t.Context(), curl, append([]string{"-s", "-m", "10", "--data-binary", body, "http://" + listeners["resp"] + "/hook"}, args...)...)
		if out, err := c.CombinedOutput(); err == nil || strings.Contains(string(out), "OK") {
			t.Errorf("curl %v: %v, %s", args, err, out)
		}
		held("curl " + strings.Join(args, " "))
	}
}
