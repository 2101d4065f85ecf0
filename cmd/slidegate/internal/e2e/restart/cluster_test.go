package restart_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// clusterLoad is how long a cluster is under load; make long T=cluster uses half a minute.
var clusterLoad = flag.Duration("cluster", 6*time.Second, "how long clients send requests to a cluster while one of its processes is killed")

const (
	sharedQuota = 60                     // of each key, per hour from its first request
	keyEvery    = 300 * time.Millisecond // how often all clients move on to the next key
)

// TestClusterLosesOne runs three processes with embedded NATS that share limits. One is killed under load and started again:
// clients of the others get no error, only decisions of the store or of the failure mode, no key is admitted more often than its
// quota, and used units stay used, even when all three are stopped and started again.
func TestClusterLosesOne(t *testing.T) {
	c := newCluster(t)
	for i := range c.members {
		c.start(t, i)
	}
	c.ready(t, 0, 1, 2)
	if got := c.members[0].spend(t, "spent"); got != sharedQuota {
		t.Fatalf("a key of a cluster without load was admitted %d times, want %d", got, sharedQuota)
	}

	var load sync.WaitGroup
	ended := make(chan struct{})
	began := time.Now()
	for _, m := range c.members {
		for range 4 {
			load.Go(func() { m.load(began, ended) })
		}
	}
	pass := func(part float64) { <-time.After(time.Until(began.Add(time.Duration(part * float64(*clusterLoad))))) }
	pass(0.25)
	c.kill(t, 2)
	pass(0.6)
	c.start(t, 2)
	pass(1)
	close(ended)
	load.Wait()
	c.report(t)

	c.ready(t, 0, 1, 2)
	c.checkStillSpent(t, "spent", "after the kill")
	c.count(t)
	for i := range c.members {
		c.members[i].process.terminate(t)
	}
	for i := range c.members {
		c.start(t, i)
	}
	c.ready(t, 0, 1, 2)
	c.checkStillSpent(t, "spent", "after all were stopped and started")
	c.checkStillSpent(t, sharedKey(0), "after all were stopped and started")
}

// cluster holds three processes that share limits.
type cluster struct {
	config  string
	members [3]*member
}

// member is one process of a cluster, with its client.
type member struct {
	http, route, folder string
	process             *process
	client              *http.Client

	down     atomic.Bool // it was killed, and does not listen again yet
	requests atomic.Int64
	fallback atomic.Int64 // decisions of the failure mode

	mu       sync.Mutex
	admitted map[string]int64 // by the store, by key
	errors   []string         // of requests while it was up
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{config: filepath.Join(t.TempDir(), "slidegate.yaml")}
	testkit.NoError(t, os.WriteFile(c.config, fmt.Appendf(nil, `store: ${CLUSTER_STORE}
failure: closed
store_timeout: 1s
policies:
  default: {key: "{key}", limits: ["%d/1h fixed-window anchor=first"]}
`, sharedQuota), 0o600))
	for i := range c.members {
		transport := &http.Transport{MaxIdleConnsPerHost: 8}
		t.Cleanup(transport.CloseIdleConnections)
		c.members[i] = &member{
			http: testkit.FreeAddress(t), route: testkit.FreeAddress(t), folder: t.TempDir(),
			client: &http.Client{Transport: transport, Timeout: testkit.Patience}, admitted: map[string]int64{},
		}
	}
	return c
}

// start starts a process.
func (c *cluster) start(t *testing.T, i int) {
	t.Helper()
	var routes []string
	for _, m := range c.members {
		routes = append(routes, m.route)
	}
	m := c.members[i]
	cmd := exec.Command(slidegate, "serve", "--config", c.config, "--http", m.http, "--grpc", "off", "--resp", "off", "--admin", "off")
	cmd.Env = []string{"CLUSTER_STORE=nats:embedded?dir=" + m.folder + "&route=" + m.route + "&cluster=" + strings.Join(routes, ",")}
	m.process = run(t, cmd)
	m.process.AwaitOutput(t, "\n  http ")
	m.down.Store(false)
}

// kill kills a process, as a crash would.
func (c *cluster) kill(t *testing.T, i int) {
	t.Helper()
	m := c.members[i]
	m.down.Store(true)
	testkit.NoError(t, m.process.Signal(syscall.SIGKILL))
	<-m.process.Ended
}

// ready waits until members reach their store: NATS servers that have lost others take some seconds to agree.
func (c *cluster) ready(t *testing.T, members ...int) {
	t.Helper()
	for _, i := range members {
		m, ready := c.members[i], false
		for tries := 0; tries < 3*int(testkit.Patience/time.Second) && !ready; tries++ {
			response, err := m.client.Get("http://" + m.http + "/readyz?require=store")
			if err == nil {
				_ = response.Body.Close()
				ready = response.StatusCode == http.StatusOK
			}
			if !ready {
				<-time.After(time.Second)
			}
		}
		if !ready {
			t.Fatalf("process %d is not ready: %s", i, m.process.Output.String())
		}
	}
}

// outcome is the result of a request.
type outcome int

const (
	refused outcome = iota
	admitted
	undecided // the failure mode decided: it refuses
)

// send requests a unit of a key from a process.
func (m *member) send(key string) (outcome, error) {
	response, err := m.client.Post("http://"+m.http+"/v1/allow", "application/json", strings.NewReader(fmt.Sprintf(`{"key":%q}`, key)))
	if err != nil {
		return undecided, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return undecided, err
	case response.StatusCode == http.StatusOK:
		return admitted, nil
	case response.StatusCode == http.StatusTooManyRequests:
		return refused, nil
	case response.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), "could not be checked"):
		return undecided, nil
	}
	return undecided, fmt.Errorf("status %d: %s", response.StatusCode, text)
}

// sharedKey returns the key that all clients use at a time since the start.
func sharedKey(after time.Duration) string { return fmt.Sprint("shared-", int(after/keyEvery)) }

// load requests units of the keys in turn.
func (m *member) load(began time.Time, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		default:
		}
		key := sharedKey(time.Since(began))
		wasDown := m.down.Load()
		got, err := m.send(key)
		m.requests.Add(1)
		if err != nil && (wasDown || m.down.Load()) {
			<-time.After(10 * time.Millisecond)
			continue
		}
		m.note(key, got, err)
	}
}

// note records an outcome.
func (m *member) note(key string, got outcome, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil:
		m.errors = append(m.errors, err.Error())
		return
	case got == admitted:
		m.admitted[key]++
	case got == undecided:
		m.fallback.Add(1)
	}
}

// spend requests units of a key until the store refuses, and returns how many it admitted.
func (m *member) spend(t *testing.T, key string) (count int64) {
	t.Helper()
	testkit.Eventually(t, "the store refuses", func() bool {
		got, err := m.send(key)
		testkit.NoError(t, err)
		if got == admitted {
			count++
		}
		return got == refused
	})
	return count
}

// checkStillSpent checks that every process refuses a key that was used up.
func (c *cluster) checkStillSpent(t *testing.T, key, when string) {
	t.Helper()
	for i, m := range c.members {
		if got := m.spend(t, key); got != 0 {
			t.Errorf("%s, process %d admitted %d units of a key that was used up before", when, i, got)
		}
	}
}

// count uses up all keys and checks that none was admitted more often than its quota. Fewer is possible: if the store's response to
// a charge is lost, the failure mode decides instead.
func (c *cluster) count(t *testing.T) {
	t.Helper()
	var all, lost int64
	keys := int(*clusterLoad / keyEvery)
	for i := range keys {
		key := sharedKey(time.Duration(i) * keyEvery)
		total := c.members[i%3].spend(t, key)
		for _, m := range c.members {
			total += m.admitted[key]
		}
		if all, lost = all+total, lost+sharedQuota-total; total > sharedQuota {
			t.Errorf("%s: %d were admitted, and the quota is %d", key, total, sharedQuota)
		}
	}
	t.Logf("%d keys with a quota of %d: %d admitted of %d, %d charges whose responses were lost", keys, sharedQuota, all, keys*sharedQuota, lost)
	if all == 0 || lost > all/4 {
		t.Errorf("%d of %d units are lost, want few", lost, all+lost)
	}
}

// report logs what the clients saw, and fails the test for errors of processes that were up.
func (c *cluster) report(t *testing.T) {
	t.Helper()
	var all int64
	for i, m := range c.members {
		var sum int64
		for _, count := range m.admitted {
			sum += count
		}
		t.Logf("process %d: %d requests, %d admitted by the store, %d decided by the failure mode, %d errors", i, m.requests.Load(), sum, m.fallback.Load(), len(m.errors))
		if testing.Verbose() {
			t.Log(m.process.Output.String())
		}
		for _, err := range m.errors[:min(5, len(m.errors))] {
			t.Errorf("process %d, which was up: %s", i, err)
		}
		all += sum
	}
	if all == 0 {
		t.Error("nothing was admitted under load")
	}
}
