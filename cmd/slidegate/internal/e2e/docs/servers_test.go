package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

// A backend is a server that samples use. A sample that is run gets the address of a real one from a variable of its environment.
type backend struct {
	variable  string
	addresses []string // as the pages write them
	start     func(t *testing.T) string
}

// redisVariable contains the address of Redis. The harness of the fragments uses it too.
const redisVariable = "SAMPLE_REDIS"

// listenVariable contains the address at which a sample listens.
const listenVariable = "SAMPLE_LISTEN"

// sampleToken is the token of the service, which the variable token of the fragments contains.
const sampleToken = "a-token-of-the-samples"

// backends are all servers that samples use. A kit that does not find its server skips the sample, or fails it if TEST_REQUIRE names
// the server.
var backends = []backend{
	{redisVariable, []string{"127.0.0.1:6379", "localhost:6379"}, func(t *testing.T) string {
		return startRedis(t).Addr()
	}},
	{"SAMPLE_POSTGRES", []string{"postgres://localhost/shop"}, func(t *testing.T) string {
		return pgtest.Shared(t).URL()
	}},
	{"SAMPLE_NATS", []string{"nats://a:4222,nats://b:4222,nats://c:4222"}, func(t *testing.T) string {
		return natstest.StartCluster(t, 3).URL(0)
	}},
	{"SAMPLE_SERVICE", []string{"localhost:6380"}, startService},
}

// installed returns the path of a program, which may be in a folder that is only on root's path. Without it the test is skipped, or
// fails if TEST_REQUIRE names the program.
func installed(t *testing.T, name string) string {
	t.Helper()
	for _, at := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if program, err := exec.LookPath(at); err == nil {
			return program
		}
	}
	kit.SkipWithoutProgram(t, name)
	return ""
}

// startRedis starts a Redis of its own for a sample, even if REDIS_URL is set: samples expect an empty one.
func startRedis(t *testing.T) *redistest.Node {
	t.Helper()
	return redistest.Server(t, "appendonly no")
}

// startService starts the service with its default policy and a token, and returns the address for Redis clients.
func startService(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens")
	testkit.NoError(t, os.WriteFile(tokens, []byte(sampleToken+"\n"), 0o600))
	var resp string
	wrong := attempt(t, func() string { // another process may take a port first
		resp = testkit.FreeAddress(t)
		args := []string{"serve", "--limit", "100/1m", "--tokens-file", tokens, "--resp", resp}
		for _, flag := range []string{"--http", "--grpc", "--admin"} {
			args = append(args, flag, testkit.FreeAddress(t))
		}
		s := startSample(t, exec.Command(slidegate, args...))
		if !s.accepts(t, resp) {
			return fmt.Sprintf("the service ends, and prints\n%s", s.output)
		}
		return ""
	})
	if wrong != "" {
		t.Fatal(wrong)
	}
	return resp
}

// withServers replaces the addresses in a Go file by variables of the environment, and returns the variables. It adds no lines.
func withServers(code string) (replaced string, variables []string) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", code, parser.SkipObjectResolution)
	if err != nil {
		return code, nil // it does not build, which is reported
	}
	edits, variables := addressEdits(files, file, `sampleos.Getenv(%q)`)
	if len(variables) > 0 {
		edits = append(edits, edit{files.Position(file.Name.End()).Offset, 0, `; import sampleos "os"`})
	}
	return apply(code, edits), variables
}

// addressEdits returns the edits that replace addresses by an expression with the variable, and the variables.
func addressEdits(files *token.FileSet, node ast.Node, expression string) (edits []edit, variables []string) {
	replace := func(literal *ast.BasicLit, scheme, variable string) {
		at := files.PositionFor(literal.Pos(), false).Offset
		edits = append(edits, edit{at, len(literal.Value), strconv.Quote(scheme) + " + " + fmt.Sprintf(expression, variable)})
		if !slices.Contains(variables, variable) {
			variables = append(variables, variable)
		}
	}
	ast.Inspect(node, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && isListen(call) {
			if literal, ok := call.Args[0].(*ast.BasicLit); ok {
				replace(literal, "", listenVariable)
			}
		}
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, _ := strconv.Unquote(literal.Value)
			scheme := ""
			if address, isURL := strings.CutPrefix(value, "redis://"); isURL {
				scheme, value = "redis://", address
			}
			for _, b := range backends {
				if slices.Contains(b.addresses, value) {
					replace(literal, scheme, b.variable)
				}
			}
		}
		return true
	})
	return edits, variables
}

// isListen reports whether a call is http.ListenAndServe.
func isListen(call *ast.CallExpr) bool {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || function.Sel.Name != "ListenAndServe" || len(call.Args) != 2 {
		return false
	}
	of, ok := function.X.(*ast.Ident)
	return ok && of.Name == "http"
}

// environment starts the servers of the variables, and returns an environment with their addresses.
func environment(t *testing.T, variables []string) []string {
	t.Helper()
	env := os.Environ()
	for _, variable := range variables {
		for _, b := range backends {
			if b.variable == variable {
				env = append(env, variable+"="+b.start(t))
			}
		}
	}
	return env
}

// An edit replaces length bytes at an offset by text.
type edit struct {
	offset, length int
	text           string
}

// apply applies edits that do not overlap. Those at the same offset are applied in their order.
func apply(code string, edits []edit) string {
	edits = slices.Clone(edits)
	slices.SortStableFunc(edits, func(a, b edit) int { return a.offset - b.offset })
	var out strings.Builder
	done := 0
	for _, e := range edits {
		out.WriteString(code[done:e.offset] + e.text)
		done = e.offset + e.length
	}
	return out.String() + code[done:]
}

// A running sample is a process that runs until the test ends.
type running struct {
	process *exec.Cmd
	output  *testkit.Output
	ended   chan struct{} // closed when the process has ended
	err     error         // how it ended; read it after ended
}

// startSample starts a process that ends with the test.
func startSample(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	s := &running{process: cmd, output: &testkit.Output{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = s.output, s.output
	testkit.NoError(t, cmd.Start())
	go func() {
		defer close(s.ended)
		s.err = cmd.Wait()
	}()
	t.Cleanup(s.stop)
	return s
}

// stop ends the process, if it still runs.
func (s *running) stop() {
	_ = s.process.Process.Kill() // it may have ended
	<-s.ended
}

// hasEnded reports whether the process has ended.
func (s *running) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// accepts waits until the process accepts connections at an address, and reports whether it does: it may have ended instead.
func (s *running) accepts(t *testing.T, address string) bool {
	t.Helper()
	listens := false
	testkit.Eventually(t, strings.Join(s.process.Args, " ")+" listens", func() bool {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			listens = true
			_ = connection.Close()
		}
		return listens || s.hasEnded()
	})
	return listens
}
