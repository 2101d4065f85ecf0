package stores_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/instrument/instrumenttest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

// checkSharedCounts takes one unit in each mode and one more, which all modes must refuse, since they share counts.
func checkSharedCounts(t *testing.T, o *open.Opened) {
	t.Helper()
	namespace := fmt.Sprint("same-", namespaces.Add(1))
	for _, mode := range []store.Mode{store.FailOpen, store.FailClosed, store.FailLocal} {
		if d := allow(t, limiter(t, store.In(o.Store, mode), namespace)); !d.Allowed || d.Flags != 0 {
			t.Errorf("one of three units: got %+v, want allowed, no flags", d)
		}
	}
	if d := allow(t, limiter(t, store.In(o.Store, store.FailOpen), namespace)); d.Allowed || d.Flags != 0 {
		t.Errorf("the fourth of three: got %+v, want refused, no flags", d)
	}
	if d := allow(t, limiter(t, o.Store, namespace)); d.Allowed || d.Flags != rule.Cached {
		t.Errorf("the fifth of three, whose refusal is cached for all modes: got %+v, want refused, the flag Cached", d)
	}
}

func TestPassword(t *testing.T) {
	node := redistest.Server(t, "user app on >hunter2@home ~* &* +@all")
	_, err := open.Open(ctx, "redis://app:wrong-hunter@"+node.Addr(), patientOptions())
	if !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "wrong-hunter") {
		t.Errorf("with a wrong password: got %v, want the error of Redis without the password", err)
	}
	checkSharedCounts(t, openConnected(t, "redis://app:hunter2%40home@"+node.Addr()+"/3", patientOptions()))
}

// TestPasswordFromFile checks that a secret is taken literally, whatever it contains.
func TestPasswordFromFile(t *testing.T) {
	const secret = "hunter2@home/?#%41"
	node := redistest.Server(t, "user app on >"+secret+" ~* &* +@all")
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse("f", []byte("store: redis://app:${file:"+path+"}@"+node.Addr()+"\npolicies: {a: {limits: [1/s]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	checkSharedCounts(t, openConnected(t, file.Service.Store, patientOptions()))
}

// TestRepeatedPasswordIsHidden checks that the password is hidden even if the server does not know a command and repeats it in full.
func TestRepeatedPasswordIsHidden(t *testing.T) {
	node := redistest.Server(t, `rename-command HELLO ""`, `rename-command AUTH ""`)
	for _, protocol := range []string{"2", "3"} {
		o := openStore(t, "redis://app:hunter2@"+node.Addr()+"?protocol="+protocol, patientOptions())
		var err error
		testkit.Eventually(t, "Redis to refuse", func() bool { err = o.Err(); return err != nil && strings.Contains(err.Error(), "unknown command") })
		if !errors.Is(err, store.ErrDown) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("protocol %s: %v", protocol, err)
		}
	}
}

// TestEvictionWarning checks that a warning is logged once when the store is connected, and only if the server evicts.
func TestEvictionWarning(t *testing.T) {
	for policy, want := range map[string]int{"volatile-lru": 1, "allkeys-random": 1, "noeviction": 0} {
		node := redistest.Server(t, "maxmemory 64mb", "maxmemory-policy "+policy)
		log := &servicetest.Log{}
		opts := patientOptions()
		opts.Logger = slog.New(slog.NewTextHandler(log, nil))
		o := openConnected(t, "redis://"+node.Addr(), opts)
		for range 3 {
			allow(t, limiter(t, o.Store, fmt.Sprint("evict-", namespaces.Add(1))))
		}
		if want == 1 {
			testkit.Eventually(t, "the warning", func() bool { return log.Has("maxmemory-policy to noeviction") })
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		if got := strings.Count(log.String(), "level=WARN"); got != want {
			t.Errorf("%s: got %d warnings, want %d:\n%s", policy, got, want, log)
		}
	}
}

func TestRedisServer(t *testing.T) {
	o := openConnected(t, "redis://"+redistest.Server(t).Addr()+"?client_name=test&prefix=mine", patientOptions())
	if o.Memory != nil {
		t.Error("Memory is set for a store that is not in memory")
	}
	checkSharedCounts(t, o)
}

func TestRedisCluster(t *testing.T) {
	nodes := redistest.Cluster(t)
	o := openConnected(t, "redis+cluster://"+strings.Join(nodes.Options().InitAddress, ","), patientOptions())
	checkSharedCounts(t, o)
}

func TestRedisSentinel(t *testing.T) {
	watched := redistest.Sentinel(t)
	o := openConnected(t, "redis+sentinel://"+strings.Join(watched.Options().InitAddress, ",")+"/"+redistest.MasterSet, patientOptions())
	checkSharedCounts(t, o)
}

// modes returns the stores of all failure modes, with the flag and the decision of each while the store is down.
func modes(o *open.Opened) []mode {
	in := func(m store.Mode, flag rule.Flags, allowed bool) mode {
		return mode{m.String(), store.In(o.Store, m), flag, allowed}
	}
	return []mode{
		in(store.FailOpen, rule.FallbackOpen, true), in(store.FailClosed, rule.FallbackClosed, false),
		in(store.FailLocal, rule.FallbackLocal, true),
	}
}

type mode struct {
	name    string
	store   store.Store
	flag    rule.Flags
	allowed bool
}

func TestDownAtTheStart(t *testing.T) {
	node := redistest.Server(t, "maxclients 100")
	node.Kill()
	o := openStore(t, "redis://u:hunter2@"+node.Addr(), hasty())
	if err := o.Err(); !errors.Is(err, store.ErrDown) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the store is down: %v", err)
	}
	for _, m := range modes(o) {
		d := allow(t, limiter(t, m.store, "start"))
		if d.Flags != m.flag || d.Allowed != m.allowed {
			t.Errorf("mode %s: got %+v, want flags %v and allowed %v", m.name, d, m.flag, m.allowed)
		}
	}
}

func TestDownThenUp(t *testing.T) {
	node := redistest.Server(t, "maxclients 100")
	node.Kill()
	o := openStore(t, "redis://"+node.Addr(), hasty())
	node.Restart()
	testkit.Eventually(t, "the store to be connected", func() bool { return isUp(o) })
	for _, m := range modes(o) {
		l := limiter(t, m.store, m.name)
		testkit.Eventually(t, "the store to decide in mode "+m.name, func() bool { return allow(t, l).Flags&m.flag == 0 })
	}
}

// TestKillAndRecovery checks that each mode decides while the server is dead, and that the server decides again when it is back,
// with its counts.
func TestKillAndRecovery(t *testing.T) {
	node := redistest.Server(t, "appendonly yes", "appendfsync always")
	o := openStore(t, "redis://"+node.Addr(), hasty())
	ms := modes(o)
	var limiters []*slidegate.Limiter
	for _, m := range ms {
		l := limiter(t, m.store, m.name)
		limiters = append(limiters, l)
		testkit.Eventually(t, "a unit from the store", func() bool { d := allow(t, l); return d.Flags == 0 })
	}
	node.Kill()
	for i, m := range ms {
		var d slidegate.Decision
		testkit.Eventually(t, "mode "+m.name+" to answer", func() bool { d = allow(t, limiters[i]); return d.Flags&m.flag != 0 })
		if d.Allowed != m.allowed {
			t.Errorf("mode %s: got %+v, want allowed %v", m.name, d, m.allowed)
		}
	}
	if o.Health() == nil {
		t.Error("Health returns nil although the server is dead")
	}
	node.Restart()
	for i, m := range ms {
		var d slidegate.Decision
		testkit.Eventually(t, "the store to decide again in mode "+m.name, func() bool { d = allow(t, limiters[i]); return d.Flags&m.flag == 0 })
		if d.Remaining > 1 { // one unit was taken before, and another now
			t.Errorf("mode %s: the counts are gone: %+v", m.name, d)
		}
	}
	if err := o.Health(); err != nil {
		t.Errorf("the server is back: Health returns %v, want nil", err)
	}
}

// TestMetrics checks that the decisions of all failure modes are counted together.
func TestMetrics(t *testing.T) {
	node := redistest.Server(t, "maxclients 100")
	reader, provider := instrumenttest.New()
	opts := patientOptions()
	opts.MeterProvider = provider
	o := openConnected(t, "redis://"+node.Addr(), opts)
	for _, m := range modes(o) {
		allow(t, limiter(t, m.store, "metrics"))
	}
	found := 0
	for name, n := range reader.Read(t) {
		if strings.HasPrefix(name, "decisions{") {
			if found++; n != 3 {
				t.Errorf("3 decisions, one in each of three modes: %s has %d", name, n)
			}
		}
	}
	if found != 1 {
		t.Errorf("got %d series of decisions, want one", found)
	}
}

func TestTLS(t *testing.T) {
	addr := tlsProxy(t, redistest.Server(t).Addr())
	checkSharedCounts(t, openConnected(t, "rediss://"+addr+"?skip_verify=true&dial_timeout=10s", patientOptions()))
	o := openStore(t, "rediss://"+addr+"?dial_timeout=10s", patientOptions())
	var err error
	testkit.Eventually(t, "the client to reject the certificate", func() bool {
		err = o.Err()
		return err == nil || strings.Contains(err.Error(), "certificate")
	})
	if !errors.Is(err, store.ErrDown) {
		t.Errorf("a self-signed certificate: %v", err)
	}
}

// tlsProxy returns an address at which a server is reached over TLS, with a self-signed certificate.
func tlsProxy(t *testing.T, to string) string {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{testkit.NewCertificate(t, "redis", nil, "127.0.0.1").Pair}}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { join(near, to) })
		}
	})
	return listener.Addr().String()
}

// join forwards data between near and another address, until either end closes.
func join(near net.Conn, to string) {
	defer near.Close()
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		near.Close()
	})
	_, _ = io.Copy(far, near)
	far.Close()
	back.Wait()
}
