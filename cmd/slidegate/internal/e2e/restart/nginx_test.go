package restart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// startNginx runs the example for two instances in front of an application.
func startNginx(t *testing.T, app string, instances ...string) (address string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "examples", "nginx", "slidegate.conf"))
	testkit.NoError(t, err)
	var servers strings.Builder
	for _, instance := range instances {
		fmt.Fprintf(&servers, "server %s max_fails=0;\n", instance)
	}
	address = testkit.FreeAddress(t)
	configured := string(text)
	for _, change := range [][2]string{
		{"    listen 80;", "    listen " + address + ";"},
		{"    server 127.0.0.1:8080;\n", servers.String()},
		{"http://127.0.0.1:3000;", "http://" + app + ";"},
		{"proxy_connect_timeout 200ms;", "proxy_connect_timeout 30s;"}, // the machine may be busy
		{"proxy_read_timeout 250ms;", "proxy_read_timeout 30s;"},
	} {
		if !strings.Contains(configured, change[0]) {
			t.Fatalf("the example has no %q", change[0])
		}
		configured = strings.ReplaceAll(configured, change[0], change[1])
	}
	testkit.Run(t, testkit.Nginx(t, configured)).Await(t, "nginx listens", func() bool { return testkit.Listens(address) })
	return address
}

// TestRollingRestartBehindNginx restarts two instances behind nginx in turn, and checks that every request is decided.
func TestRollingRestartBehindNginx(t *testing.T) {
	addresses := [2]string{testkit.FreeAddress(t), testkit.FreeAddress(t)}
	var instances [2]*process
	for i := range instances {
		instances[i] = serve(t, addresses[i])
	}
	all := startLoad(t, startNginx(t, application(t), addresses[:]...))
	for range *rounds {
		for i := range instances {
			instances[i].terminate(t)
			before := all.requests.Load()
			testkit.Eventually(t, "the other instance answers alone", func() bool { return all.requests.Load() > before+100 })
			instances[i] = serve(t, addresses[i])
		}
	}
	all.check(t)
}
