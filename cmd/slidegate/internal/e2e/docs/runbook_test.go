package docs

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// runbook is the page with what to do about each alert. Package monitoring checks that it has an entry for each of them.
const runbook = "docs/runbook.md"

// A fault is what an alert is about, made on the machine of docs/production.md.
type fault func(t *testing.T, m *machine)

// faults are the faults of the entries of the runbook, by their headings. TestRunbook undoes them.
var faults = map[string]fault{
	"SlidegateDown":      func(_ *testing.T, m *machine) { m.end("slidegate@a") },
	"SlidegateStoreDown": stopRedis,
	"SlidegateFallback":  refuseWithoutRedis,
	"SlidegateErrors":    refuseWithoutRedis,
	"SlidegateSlow": func(t *testing.T, m *machine) {
		m.redis.Signal(syscall.SIGSTOP)
		m.post(t, "8080", "/v1/allow", `{"policy":"site","key":"slow"}`) // takes store_timeout
	},
	"SlidegateReloadFailed": func(t *testing.T, m *machine) { m.change(t, "slidegate.yaml", "600/1m", "600/1fortnight") },
	"SlidegateConfigDiffers": func(t *testing.T, m *machine) {
		first := m.units["slidegate@a"]
		first.suspend(t) // it sees only the last of the two changes, and rejects it
		m.change(t, "slidegate.yaml", "600/1m", "500/1m")
		m.units["slidegate@b"].stop()
		testkit.NoError(t, m.start(t, "slidegate@b"))
		m.change(t, "slidegate.yaml", "500/1m", "500/1fortnight")
		first.resume(t)
		hash := func(port string) string {
			printed, _ := m.print(t, "slidegate config running --server http://127.0.0.1:"+port+" | grep -o 'hash [0-9a-f]*'")
			return printed
		}
		if a, b := hash("8082"), hash("8092"); a == b {
			t.Errorf("both instances have the %s", a)
		}
	},
	"SlidegateRestartNeeded": func(t *testing.T, m *machine) {
		m.change(t, "slidegate.yaml", "policies:", "store_timeout: 200ms\npolicies:")
	},
	"SlidegateRulingsOld": stopRedis,
	"SlidegateCertificateExpires": func(t *testing.T, m *machine) {
		request := `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3 -subj /CN=slidegate -keyout /etc/slidegate/tls.key -out /etc/slidegate/tls.pem`
		if printed, err := m.print(t, request); err != nil {
			t.Fatalf("%v: %s", err, printed)
		}
		m.restartWith(t, "SLIDEGATE_TLS_CERT="+m.file("/etc/slidegate/tls.pem"), "SLIDEGATE_TLS_KEY="+m.file("/etc/slidegate/tls.key"))
	},
	"SlidegateNotDurable": func(t *testing.T, m *machine) {
		disk := testkit.SmallDisk(t, "4m")
		m.restartInMemory(t, "memory:", "SLIDEGATE_STATE="+filepath.Join(disk, "state"))
		testkit.Eventually(t, "an error in the log", func() bool { return strings.Contains(m.units["slidegate@a"].output.String(), "not durable") })
	},
	"SlidegateMemoryFull": func(t *testing.T, m *machine) {
		m.restartInMemory(t, "memory:?max_bytes=256KiB")
		for i := range 50 {
			var requests []string
			for j := range 100 {
				requests = append(requests, fmt.Sprintf(`{"policy":"login","key":"key %d"}`, 100*i+j))
			}
			m.post(t, "8080", "/v1/allow", `{"requests":[`+strings.Join(requests, ",")+`]}`)
		}
	},
	"SlidegateConnectionsRefused": func(t *testing.T, m *machine) {
		m.restartWith(t, "SLIDEGATE_MAX_CONNECTIONS=2")
		for range 4 {
			conn, err := net.Dial("tcp", "127.0.0.1:"+m.ports["8080"])
			testkit.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
		}
		testkit.Eventually(t, "two connections are refused", func() bool {
			return strings.Contains(m.metrics(t), "\nslidegate_connections_refused_total{listener=\"http\"} 2\n")
		})
	},
	"SlidegateMostRefused": func(t *testing.T, m *machine) {
		for range 8 {
			m.post(t, "8080", "/v1/allow", `{"policy":"login","key":"198.51.100.9"}`)
		}
	},
}

func stopRedis(t *testing.T, m *machine) {
	m.redis.Kill()
	testkit.Eventually(t, "the outage is noticed", func() bool {
		return strings.Contains(m.metrics(t), "\nslidegate_store_up{store=\"redis\"} 0\n") &&
			strings.Contains(m.units["slidegate@a"].output.String(), "rulings cannot be read")
	})
}

func refuseWithoutRedis(t *testing.T, m *machine) {
	stopRedis(t, m)
	if status := m.post(t, "8080", "/v1/allow", `{"policy":"login","key":"198.51.100.7"}`); status != 503 {
		t.Errorf("got %d from a closed policy, want 503", status)
	}
}

// metrics returns the metrics of the first instance.
func (m *machine) metrics(t *testing.T) string {
	t.Helper()
	printed, _ := m.print(t, "curl http://127.0.0.1:8083/metrics")
	return printed
}

// change replaces text in a file of /etc/slidegate.
func (m *machine) change(t *testing.T, name, before, after string) {
	t.Helper()
	file := m.file("/etc/slidegate/" + name)
	text, err := os.ReadFile(file)
	testkit.NoError(t, err)
	if !bytes.Contains(text, []byte(before)) {
		t.Fatalf("%s has no %q:\n%s", name, before, text)
	}
	testkit.NoError(t, os.WriteFile(file, bytes.ReplaceAll(text, []byte(before), []byte(after)), 0o600))
}

// restartWith restarts the first instance with more variables.
func (m *machine) restartWith(t *testing.T, variables ...string) {
	t.Helper()
	m.change(t, "a.environment", "SLIDEGATE_METRICS=", strings.Join(variables, "\n")+"\nSLIDEGATE_METRICS=")
	m.units["slidegate@a"].stop()
	testkit.NoError(t, m.start(t, "slidegate@a"))
}

// restartInMemory is restartWith for an instance that counts in memory.
func (m *machine) restartInMemory(t *testing.T, store string, variables ...string) {
	t.Helper()
	text, err := os.ReadFile(m.file("/etc/slidegate/slidegate.yaml"))
	testkit.NoError(t, err)
	m.change(t, "slidegate.yaml", regexp.MustCompile(`(?m)^store: .*$`).FindString(string(text)), `store: "`+store+`"`)
	m.restartWith(t, variables...)
}

// restore undoes a fault: it restarts Redis and both instances, with the files of before.
func (m *machine) restore(t *testing.T, files map[string][]byte) {
	t.Helper()
	for name, text := range files {
		testkit.NoError(t, os.WriteFile(m.file("/etc/slidegate/"+name), text, 0o600))
	}
	m.redis.Restart()
	for _, unit := range []string{"slidegate@a", "slidegate@b"} {
		m.units[unit].stop()
		testkit.NoError(t, m.start(t, unit))
	}
}

// TestRunbook sets up the machine of docs/production.md, makes the fault of each entry of the runbook, and runs its commands.
func TestRunbook(t *testing.T) {
	production, entries := readPage(t, root, filepath.Join(root, "docs", "production.md")), readPage(t, root, filepath.Join(root, runbook))
	c := newConsole(t, production, nil)
	m := c.machine
	for _, b := range production.blocks {
		if b.language != "console" || m.units["slidegate@b"] != nil {
			continue
		}
		for _, s := range stepsOf(b) {
			if wrong := c.run(t, s); wrong != "" {
				t.Fatal(production.problemf(s.line, "%s\n%s", s.command, wrong))
			}
		}
	}
	files := map[string][]byte{}
	for _, name := range []string{"slidegate.yaml", "a.environment"} {
		text, err := os.ReadFile(m.file("/etc/slidegate/" + name))
		testkit.NoError(t, err)
		files[name] = text
	}
	byHeading := stepsByHeading(entries)
	for _, heading := range slices.Sorted(maps.Keys(byHeading)) {
		steps := byHeading[heading]
		t.Run(heading, func(t *testing.T) {
			fault := faults[heading]
			if fault == nil || len(steps) == 0 {
				t.Fatalf("the entry has %d commands, and the fault in this test is set: %v; want both", len(steps), fault != nil)
			}
			defer m.restore(t, files)
			fault(t, m)
			for _, s := range steps {
				if s.shown == "" {
					t.Error(entries.problemf(s.line, "%s: the page does not show what it prints", s.command))
				}
				if wrong := c.run(t, s); wrong != "" {
					t.Error(entries.problemf(s.line, "%s\n%s", s.command, wrong))
				}
			}
		})
	}
	for heading := range faults {
		if _, found := byHeading[heading]; !found {
			t.Errorf("the runbook has no entry %s", heading)
		}
	}
}

// stepsByHeading returns the console commands below each heading of the second level that is the name of an alert.
func stepsByHeading(p *page) map[string][]step {
	found := map[string][]step{}
	line, heading := 0, ""
	blocks := map[int]block{}
	for _, b := range p.blocks {
		blocks[b.line] = b
	}
	for text := range bytes.Lines(p.source) {
		line++
		if name, is := bytes.CutPrefix(bytes.TrimSpace(text), []byte("## ")); is {
			heading = string(name)
		}
		if strings.HasPrefix(heading, "Slidegate") {
			found[heading] = append(found[heading], nil...)
			if b, begins := blocks[line]; begins && b.language == "console" {
				found[heading] = append(found[heading], stepsOf(b)...)
			}
		}
	}
	return found
}
