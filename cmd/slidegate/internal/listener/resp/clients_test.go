package resp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// program returns the path of a Redis program, or skips the test; TEST_REQUIRE can require them.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	testkit.Missing(t, "redis-server", name+" is not installed, so no real client was tested; make test installs it")
	return ""
}

// run runs a program against the server, and returns its output.
func (w *world) run(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	path := program(t, name)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, port, _ := net.SplitHostPort(w.addr)
	cmd := exec.CommandContext(ctx, path, append([]string{"-h", "127.0.0.1", "-p", port}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s failed: %v: %s", name, err, out)
	}
	return strings.ReplaceAll(string(out), "\r", "\n")
}

func TestRedisCli(t *testing.T) {
	for _, protocol := range []string{"-2", "-3"} {
		w := open(t, resp.Options{})
		for _, c := range []struct {
			command string
			want    string // what is printed, line by line
		}{
			{"ping", "PONG"},
			{"sg.allow default ann 3", "1 10 7 0 3600000000 3"},
			{"SG.ALLOW default ann 8", "0 10 7 3600000000 3600000000 0"},
			{"CL.THROTTLE user123 15 30 60", "0 16 15 -1 2"},
			{"CL.THROTTLE user123 0 1 60 2", "1 1 0 -1 60"}, // a bucket of one unit per minute never has two
		} {
			got := w.run(t, "", "redis-cli", append([]string{protocol}, strings.Fields(c.command)...)...)
			if strings.Join(strings.Fields(got), " ") != c.want {
				t.Errorf("redis-cli %s %s: got %q, want %q", protocol, c.command, got, c.want)
			}
		}
		// Interactively, when it first asks for the commands.
		got := w.run(t, "sg.peek default bob\nselect 0\nnosuch bob\n", "redis-cli", protocol)
		for _, want := range []string{"10", "OK", "ERR unknown command 'nosuch'"} {
			if !strings.Contains(got, want) {
				t.Errorf("interactive redis-cli %s lacks %q: %q", protocol, want, got)
			}
		}
	}
	w := open(t, resp.Options{Tokens: []string{"open-sesame"}})
	if got := w.run(t, "", "redis-cli", "--no-auth-warning", "-a", "open-sesame", "ping"); strings.TrimSpace(got) != "PONG" {
		t.Errorf("with the token: got %q", got)
	}
	if got := w.run(t, "", "redis-cli", "--no-auth-warning", "--user", "any", "-a", "open-sesame", "-3", "ping"); strings.TrimSpace(got) != "PONG" {
		t.Errorf("with a user and the token: got %q", got)
	}
	if got := w.run(t, "", "redis-cli", "ping"); !strings.Contains(got, "NOAUTH") {
		t.Errorf("without the token: got %q", got)
	}
}

func TestRedisBenchmark(t *testing.T) {
	for _, batch := range []bool{false, true} {
		w := open(t, resp.Options{Batch: batch})
		for _, pipeline := range []string{"1", "64"} {
			got := w.run(t, "", "redis-benchmark", "-q", "-c", "20", "-P", pipeline, "-n", "5000", "-r", "1000", "SG.ALLOW", "default", "key:__rand_int__")
			if !regexp.MustCompile(`[0-9.]+ requests per second`).MatchString(got) || regexp.MustCompile(`(?i)error|warning`).MatchString(got) {
				t.Errorf("redis-benchmark -P %s: %s", pipeline, got)
			}
		}
	}
}

func TestRueidis(t *testing.T) {
	for _, resp2 := range []bool{false, true} {
		w := open(t, resp.Options{Tokens: []string{"token"}, Batch: true})
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{w.addr}, Password: "token", ClientName: "web", DisableCache: true, AlwaysRESP2: resp2, ForceSingleClient: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		var commands []rueidis.Completed
		for range 11 {
			commands = append(commands, client.B().Arbitrary("SG.ALLOW").Args("default").Keys("ann").Build())
		}
		for i, answer := range client.DoMulti(t.Context(), commands...) {
			got, err := answer.AsIntSlice()
			want := []int64{1, 10, 9 - int64(i), 0, hour, 1}
			if i == 10 {
				want = []int64{0, 10, 0, hour, hour, 0}
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("resp2 %v: %d: %v, %v, want %v", resp2, i, got, err, want)
			}
		}
		err = client.Do(t.Context(), client.B().Arbitrary("SG.ALLOW").Args("nobody").Keys("ann").Build()).Error()
		var replied *rueidis.RedisError
		if !errors.As(err, &replied) || !strings.Contains(fmt.Sprint(err), "unknown policy") {
			t.Errorf("resp2 %v: an unknown policy: %v", resp2, err)
		}
		client.Close()
	}
}
