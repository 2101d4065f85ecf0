package restart_test

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/e2e/manifest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// upgrades is how often TestStatefulSetUpgrade replaces all pods; make long T=helm uses more than none.
var upgrades = flag.Int("upgrades", 0, "how often to replace all pods of the StatefulSet under load; 0 skips that")

// endpointDelay is how long it takes until no new connections go to a pod that is stopping, or until they go to one that is ready: less
// than the --drain-delay of the manifest, which exists for this.
const endpointDelay = 3 * time.Second

// upgradeQuota is how many requests upgradeWindow admits.
const (
	upgradeQuota  = 300
	upgradeWindow = 5 * time.Second
)

// TestStatefulSetUpgrade replaces the pods of deploy/kubernetes/nats.yaml one by one, as the controller of StatefulSets does: the last one
// first, and the next one when it has been ready for minReadySeconds. 500 requests a second are balanced over those that are
// ready. None fails, and no window admits more than its quota.
func TestStatefulSetUpgrade(t *testing.T) {
	if *upgrades == 0 {
		t.Skip("takes a minute; make long T=helm runs it")
	}
	s := newStatefulSet(t)
	for i := range s.pods {
		s.start(t, i)
	}
	for i := range s.pods {
		s.awaitReady(t, i)
	}
	admissions := &admissions{}
	all := (&load{
		address: s.next, perSecond: 500, perConnection: 20, judge: admissions.judge,
		request: "POST /v1/allow HTTP/1.1\r\nHost: slidegate\r\nContent-Type: application/json\r\nAuthorization: Bearer " + upgradeToken + "\r\nContent-Length: 16\r\n\r\n{\"key\":\"tenant\"}",
	}).start(t)
	<-time.After(upgradeWindow)
	for range *upgrades {
		for i := len(s.pods) - 1; i >= 0; i-- {
			s.replace(t, i)
		}
	}
	<-time.After(upgradeWindow)
	all.check(t)
	admissions.check(t)
	for i, p := range s.pods {
		if testing.Verbose() {
			t.Logf("pod %d: %s", i, p.process.Output.String())
		}
		if n := p.connections.Load(); n == 0 {
			t.Errorf("the last process of pod %d had no connection", i)
		}
	}
}

const upgradeToken = "a-token-of-24-characters"

// statefulSet runs the pods of the manifest, and balances connections over them as a Service does.
type statefulSet struct {
	workload *manifest.Object
	pods     []*statefulPod

	mu        sync.Mutex
	endpoints []*statefulPod
	turn      int
}

// statefulPod is a pod, which keeps its volumes when it is replaced.
type statefulPod struct {
	*manifest.Pod
	process     *process
	listeners   map[string]string
	connections atomic.Int64 // to its process
}

func newStatefulSet(t *testing.T) *statefulSet {
	t.Helper()
	f := manifest.Read(t, filepath.Join("..", "..", "..", "..", "..", "deploy", "kubernetes", "nats.yaml"))
	s := &statefulSet{workload: f.Workload(t)}
	text := f.Get("ConfigMap", "slidegate").Data["slidegate.yaml"]
	before, _, found := strings.Cut(text, "policies:")
	if !found {
		t.Fatalf("no policies in %s", text)
	}
	f.Get("ConfigMap", "slidegate").Data["slidegate.yaml"] = before + fmt.Sprintf("policies: {default: {limits: [%d/%v]}}\n", upgradeQuota, upgradeWindow)
	const host = ".slidegate-cluster.${POD_NAMESPACE}.svc.cluster.local:6222"
	var routes, replace []string
	for i := range s.workload.Spec.Replicas {
		routes = append(routes, testkit.FreeAddress(t))
		replace = append(replace, fmt.Sprint("slidegate-", i, host), routes[i])
	}
	secrets := map[string]map[string]string{
		"slidegate-tokens":  {"tokens": upgradeToken + "\n", "admin-tokens": "ops:operator:another-token-of-24-characters\n"},
		"slidegate-cluster": {"secret": "the-secret-of-the-cluster\n"},
	}
	for i, route := range routes {
		pod := f.Pod(t, s.workload, fmt.Sprint("slidegate-", i), secrets, append([]string{"${POD_NAME}" + host, route}, replace...)...)
		s.pods = append(s.pods, &statefulPod{Pod: pod})
	}
	return s
}

// next returns the address for the next connection: that of each endpoint in turn.
func (s *statefulSet) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn++
	p := s.endpoints[s.turn%len(s.endpoints)]
	p.connections.Add(1)
	return p.listeners["http"]
}

// start starts a pod.
func (s *statefulSet) start(t *testing.T, i int) {
	t.Helper()
	p := s.pods[i]
	cmd := exec.Command(slidegate, p.Args...)
	cmd.Env = p.Env
	p.process = run(t, cmd)
	p.connections.Store(0)
	p.process.AwaitOutput(t, `"listener":"metrics"`)
	p.listeners = manifest.Addresses(p.process.Output.String())
}

// awaitReady waits as the kubelet does: until the startup probe succeeds, and then the readiness probe. Then the pod is an endpoint, and
// ready for the controller after minReadySeconds.
func (s *statefulSet) awaitReady(t *testing.T, i int) {
	t.Helper()
	p := s.pods[i]
	for _, probe := range []*manifest.Probe{s.workload.Container().StartupProbe, s.workload.Container().ReadinessProbe} {
		s.awaitProbe(t, p, probe)
	}
	<-time.After(endpointDelay)
	s.mu.Lock()
	s.endpoints = append(s.endpoints, p)
	s.mu.Unlock()
	<-time.After(time.Duration(s.workload.Spec.MinReadySeconds)*time.Second - endpointDelay)
}

func (s *statefulSet) awaitProbe(t *testing.T, p *statefulPod, probe *manifest.Probe) {
	t.Helper()
	for late := time.Now().Add(3 * testkit.Patience); ; <-time.After(time.Duration(probe.PeriodSeconds) * time.Second) {
		response, err := http.Get("http://" + p.listeners[probe.HTTPGet.Port] + probe.HTTPGet.Path)
		if err == nil {
			_ = response.Body.Close()
		}
		if err == nil && response.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%s never succeeds: %s", probe.HTTPGet.Path, p.process.Output.String())
		}
	}
}

// replace stops a pod and starts it again. New connections still go to it for a while, as nodes notice late that it is stopping.
func (s *statefulSet) replace(t *testing.T, i int) {
	t.Helper()
	p := s.pods[i]
	noticed := time.AfterFunc(endpointDelay, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endpoints = slices.DeleteFunc(s.endpoints, func(e *statefulPod) bool { return e == p })
	})
	began := time.Now()
	p.process.terminate(t)
	stopped := time.Since(began)
	if noticed.Stop() {
		t.Fatalf("pod %d ended after %v, before nodes noticed", i, stopped)
	}
	s.start(t, i)
	s.awaitReady(t, i)
	t.Logf("pod %d stopped in %v, and was replaced after %v", i, stopped.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// admissions records when requests were admitted.
type admissions struct {
	mu       sync.Mutex
	all      []admission
	refused  int
	fallback int // decisions without the store
}

// admission is when a request was sent, and when its response arrived: it was admitted in between.
type admission struct{ sent, received time.Time }

func (a *admissions) judge(sent time.Time, response *http.Response, text string) error {
	received := time.Now()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusTooManyRequests {
		return errors.New("status " + strconv.Itoa(response.StatusCode) + ": " + text)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if response.StatusCode == http.StatusOK {
		a.all = append(a.all, admission{sent, received})
	} else {
		a.refused++
	}
	if strings.Contains(text, "fallback") {
		a.fallback++
	}
	return nil
}

// check fails the test if more than the quota was admitted within some window, however it lies.
func (a *admissions) check(t *testing.T) {
	t.Helper()
	slices.SortFunc(a.all, func(x, y admission) int { return x.sent.Compare(y.sent) })
	most := 0
	for i, first := range a.all {
		count := 0
		for _, one := range a.all[i:] {
			if one.sent.Sub(first.sent) >= upgradeWindow {
				break
			}
			if one.received.Sub(first.sent) < upgradeWindow {
				count++
			}
		}
		most = max(most, count)
	}
	t.Logf("%d admitted, %d refused, %d decided without the store; at most %d admitted within %v, of %d", len(a.all), a.refused, a.fallback, most, upgradeWindow, upgradeQuota)
	if most > upgradeQuota {
		t.Errorf("%d were admitted within %v, and the quota is %d", most, upgradeWindow, upgradeQuota)
	}
	if most < upgradeQuota*9/10 {
		t.Errorf("at most %d were admitted within %v: the load does not use up the quota of %d", most, upgradeWindow, upgradeQuota)
	}
}
