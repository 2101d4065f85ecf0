package program_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rulings"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestRulings checks that two busy instances obey rulings made at one of them: that instance at once, and the other within two
// seconds, the interval at which it reads the store. Package rulings tests that interval exactly, since timing depends on a busy
// machine here. No ruling is lost when an instance is killed.
func TestRulings(t *testing.T) {
	for name, url := range map[string]func() string{
		"Redis":      func() string { return "redis://" + redistest.Server(t, "maxmemory-policy noeviction").Addr() },
		"PostgreSQL": func() string { return pgtest.Start(t, "fsync = off").URL("pool_max_conns=4") },
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, "slidegate.yaml", fmt.Sprintf(`store: %q
store_timeout: 5s
default_policy: api
policies:
  api: {limits: [20/1h]}
  leased: {lease: true, limits: [1000000/1h segments=60 overlap=whole]}
  scarce: {lease: true, limits: [50/1h segments=60 overlap=whole]}
`, url()))
			p := &pair{T: t, file: file}
			for range 2 {
				p.instances = append(p.instances, newInstance(t, "--config", file))
			}
			p.checkBlock()
			p.checkCachedRefusals()
			p.checkLeasedRefusals()
			p.checkOverrideEnds()
			p.checkKilledInstance()
		})
	}
}

// TestRulingsInMemory checks that rulings in memory, saved in a file, survive a kill.
func TestRulingsInMemory(t *testing.T) {
	args := []string{"--limit", "20/1h", "--state", filepath.Join(t.TempDir(), "state")}
	one := newInstance(t, args...)
	one.must(t, "block", "bad", "--why", "abuse", "--who", "eve")
	one.must(t, "override", "vip", "30/1h", "--for", "1h")
	log := one.must(t, "rulings", "--log", "--format", "json")
	one.kill()
	testkit.Eventually(t, "the killed instance is gone", func() bool { _, err := one.try("", "x"); return err != nil })
	again := newInstance(t, args...)
	if got := again.must(t, "rulings", "--log", "--format", "json"); got != log {
		t.Errorf("the log after a kill is\n%s\nwant\n%s", got, log)
	}
	if a := again.allow(t, "", "bad"); a.By != "ruling" {
		t.Errorf("after a kill: got %+v, want a block", a)
	}
	if a := again.allow(t, "", "vip"); a.Quota != 30 {
		t.Errorf("after a kill: got %+v, want a quota of 30", a)
	}
}

// instance is a process of the service.
type instance struct {
	listeners map[string]string
	kill      func()
}

func newInstance(t *testing.T, args ...string) *instance {
	t.Helper()
	free := []string{"serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	welcome, kill := startKillable(t, "curl -i ", append(free, args...)...)
	i := &instance{listeners: map[string]string{}, kill: kill}
	for _, found := range regexp.MustCompile(`(?m)^  (http|grpc|resp|admin) +(?:https?://)?(127\.0\.0\.1:\d+)`).FindAllStringSubmatch(welcome, -1) {
		i.listeners[found[1]] = found[2]
	}
	return i
}

// must runs an operator's command, and returns its output.
func (i *instance) must(t *testing.T, args ...string) string {
	t.Helper()
	status, out, errs := call(t, append(args, "--server", "http://"+i.listeners["admin"])...)
	if status != 0 {
		t.Fatalf("%q: status %d, %s%s", args, status, out, errs)
	}
	return out
}

// reply is a decision, with the times of its request and response.
type reply struct {
	Allowed bool
	By      string
	Quota   int64
	Flags   []string

	began, ended time.Time
}

func (i *instance) try(policy, key string) (a reply, err error) {
	a.began = time.Now()
	response, err := http.Post("http://"+i.listeners["http"]+"/v1/allow", "application/json", strings.NewReader(fmt.Sprintf(`{"policy":%q,"key":%q}`, policy, key)))
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	a.ended = time.Now()
	return a, err
}

func (i *instance) allow(t *testing.T, policy, key string) reply {
	t.Helper()
	a, err := i.try(policy, key)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// spent returns how many units were spent from leases.
func (i *instance) spent(t *testing.T) float64 {
	t.Helper()
	response, err := http.Get("http://" + i.listeners["admin"] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	found := regexp.MustCompile(`(?m)^slidegate_leases_units_spent_total(?:\{[^}]*\})? (\S+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("no metric of leases")
	}
	value, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// pair holds two instances over one store.
type pair struct {
	*testing.T
	file      string
	instances []*instance
}

// load sends concurrent requests for a key to both instances until stop is called, which returns all replies of each.
func (p *pair) load(policy, key string) (stop func() [2][]reply) {
	end := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	var answers [2][]reply
	for i := range p.instances {
		for range 3 {
			all.Go(func() {
				for {
					select {
					case <-end:
						return
					default:
					}
					a, err := p.instances[i].try(policy, key)
					if err != nil {
						p.Error(err)
						return
					}
					mu.Lock()
					answers[i] = append(answers[i], a)
					mu.Unlock()
				}
			})
		}
	}
	return func() [2][]reply {
		close(end)
		all.Wait()
		return answers
	}
}

// await waits until all replies of both instances for a key are as wanted.
func (p *pair) await(what, policy, key string, is func(reply) bool) {
	p.Helper()
	for _, one := range p.instances {
		testkit.Eventually(p.T, what, func() bool { return is(one.allow(p.T, policy, key)) })
	}
}

func isBlocked(a reply) bool { return !a.Allowed && a.By == "ruling" }
func isAdmitted(a reply) bool {
	return a.Allowed && len(a.Flags) == 0 || a.Allowed && a.Flags[0] == "leased"
}

// checkBlock blocks a busy key whose units are leased: no instance spends any more of them.
func (p *pair) checkBlock() {
	stop := p.load("leased", "bad")
	for _, one := range p.instances {
		testkit.Eventually(p.T, "units are spent from leases", func() bool { return one.spent(p.T) > 0 })
	}
	p.instances[0].must(p.T, "block", "bad", "--policy", "leased", "--why", "abuse", "--who", "eve")
	made := time.Now()
	p.await("it is blocked", "leased", "bad", isBlocked)
	var before [2]float64
	for i, one := range p.instances {
		before[i] = one.spent(p.T)
	}
	for range 50 {
		for _, one := range p.instances {
			if a := one.allow(p.T, "leased", "bad"); !isBlocked(a) {
				p.Fatalf("after the block took effect: got %+v", a)
			}
		}
	}
	for i, answers := range stop() {
		late := time.Duration(0)
		for _, a := range answers {
			if a.Allowed {
				late = max(late, a.ended.Sub(made))
			}
			if a.Allowed && i == 0 && a.began.After(made) {
				p.Errorf("the instance at which the block was made admits a request that began %v later", a.began.Sub(made))
			}
		}
		p.Logf("instance %d: %d replies, the last admission %v after the block was acknowledged", i, len(answers), late)
		if spent := p.instances[i].spent(p.T); spent != before[i] {
			p.Errorf("instance %d has spent %v leased units since the block took effect", i, spent-before[i])
		}
	}
	p.instances[1].must(p.T, "unblock", "bad", "--policy", "leased")
	if a := p.instances[1].allow(p.T, "leased", "bad"); !isAdmitted(a) {
		p.Errorf("right after the block was removed: got %+v, want admitted", a)
	}
	p.await("it is unblocked", "leased", "bad", isAdmitted)
	p.instances[0].must(p.T, "block", "bad", "--policy", "leased", "--why", "again", "--who", "eve")
}

// checkCachedRefusals raises the limit of a key whose refusals both instances have cached.
func (p *pair) checkCachedRefusals() {
	p.exhaust("api", "few")
	p.instances[0].must(p.T, "override", "few", "40/1h")
	if a := p.instances[0].allow(p.T, "api", "few"); !isAdmitted(a) || a.Quota != 40 {
		p.Errorf("right after the limit was raised: got %+v, want admitted", a)
	}
	p.await("it is raised", "api", "few", isAdmitted)
	p.instances[0].must(p.T, "override", "few", "--end")
	if a := p.instances[0].allow(p.T, "api", "few"); a.Allowed || a.Quota != 20 {
		p.Errorf("right after the raise has ended: got %+v, want refused", a)
	}
}

// checkLeasedRefusals raises the limit of a key that the lease layers of both instances refuse.
func (p *pair) checkLeasedRefusals() {
	p.exhaust("scarce", "few")
	p.instances[1].must(p.T, "override", "few", "500/1h segments=60 overlap=whole", "--policy", "scarce")
	if a := p.instances[1].allow(p.T, "scarce", "few"); !isAdmitted(a) {
		p.Errorf("right after the limit was raised: got %+v, want admitted", a)
	}
	p.await("it is raised", "scarce", "few", isAdmitted)
}

// exhaust uses up a key, until both instances refuse it repeatedly.
func (p *pair) exhaust(policy, key string) {
	p.Helper()
	for _, one := range p.instances {
		refused := 0
		testkit.Eventually(p.T, "it is used up", func() bool {
			if refused++; one.allow(p.T, policy, key).Allowed {
				refused = 0
			}
			return refused == 5
		})
	}
}

// checkOverrideEnds checks that an override ends at its time in both instances: requests answered before are admitted, and requests begun
// afterwards are refused.
func (p *pair) checkOverrideEnds() {
	p.exhaust("api", "guest")
	var listed struct{ Ruling rulings.Ruling }
	text := p.instances[0].must(p.T, "override", "guest", "--unlimited", "--for", "6s", "--format", "json")
	if err := json.Unmarshal([]byte(text), &listed); err != nil {
		p.Fatal(err)
	}
	end := listed.Ruling.Until
	p.await("the override is obeyed", "api", "guest", func(a reply) bool { return a.Allowed || a.ended.After(end) })
	stop := p.load("api", "guest")
	p.await("the override ends", "api", "guest", func(a reply) bool { return !a.Allowed })
	p.await("it has ended for a while", "api", "guest", func(a reply) bool { return a.began.Sub(end) > 200*time.Millisecond })
	for i, answers := range stop() {
		admitted, refused := 0, 0
		last, first := time.Duration(-1<<62), time.Duration(1<<62)
		for _, a := range answers {
			switch {
			case a.Allowed && a.began.After(end), !a.Allowed && a.ended.Before(end):
				p.Errorf("instance %d: allowed is %v for a request from %v to %v after the end", i, a.Allowed, a.began.Sub(end), a.ended.Sub(end))
			case a.Allowed:
				admitted, last = admitted+1, max(last, a.began.Sub(end))
			default:
				refused, first = refused+1, min(first, a.ended.Sub(end))
			}
		}
		if admitted == 0 || refused == 0 {
			p.Errorf("instance %d: %d admitted and %d refused, want some of both", i, admitted, refused)
		}
		p.Logf("instance %d: %d admitted, the last began %v after the end; %d refused, the first was answered %v after it", i, admitted, last, refused, first)
	}
}

// checkKilledInstance kills an instance, which restarts with all rulings.
func (p *pair) checkKilledInstance() {
	want := p.listRulings(p.instances[0])
	log := p.instances[0].must(p.T, "rulings", "--log", "--format", "json")
	p.instances[1].kill()
	p.instances[1] = newInstance(p.T, "--config", p.file)
	p.await("it is blocked again", "leased", "bad", isBlocked)
	if got := p.listRulings(p.instances[1]); !slices.Equal(got, want) || len(want) < 2 {
		p.Errorf("after a kill: got %q, want %q", got, want)
	}
	if got := p.instances[1].must(p.T, "rulings", "--log", "--format", "json"); got != log || !strings.Contains(log, `"why":"abuse"`) {
		p.Errorf("the log after a kill is\n%s\nwant\n%s", got, log)
	}
}

// listRulings returns the rulings in force, as text.
func (p *pair) listRulings(one *instance) (all []string) {
	p.Helper()
	var listed struct{ Rulings []json.RawMessage }
	if err := json.Unmarshal([]byte(one.must(p.T, "rulings", "--format", "json")), &listed); err != nil {
		p.Fatal(err)
	}
	for _, r := range listed.Rulings {
		all = append(all, string(r))
	}
	return all
}
