package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
)

// goalLeases is the goal for the service with leases over Redis on a busy key, as a fraction of what it does with its store in
// memory.
const goalLeases = 0.9

// leasedPolicy is the policy of all rows, with a limit that no load reaches. A store that is slow on a busy machine is waited for.
const leasedPolicy = `store: %q
store_timeout: 30s
policies:
  default: {key: "{key}", lease: %t, limits: [4000000000/1h segments=60 overlap=whole]}
`

// leasedRules is a file of rules for Envoy with the same limit.
const leasedRules = `domain: bench
descriptors:
- {key: ample, rate_limit: {unit: hour, requests_per_unit: 4000000000, algorithm: sliding-window, segments: 60, overlap: whole, lease: %t}}
`

// leasedService is the service with one of the stores that are compared.
type leasedService struct {
	name    string
	program *program
	envoy   *envoyServer
	stop    func()
}

// leasedListener is a listener, and how it is put under load for one round.
type leasedListener struct {
	name   string
	stores int // number of stores compared: a round trip for each request of a pipeline would take minutes
	time   func(s *leasedService) (leasedSample, error)
}

// leasedSample holds the figures of one round: requests per second, and microseconds.
type leasedSample struct{ perSecond, cpu, p99 float64 }

// serviceLeaseTables measures the service with one busy key: with its store in memory, with leases over Redis, and without.
func (r *run) serviceLeaseTables() ([]*table, error) {
	t := &table{
		title:   "Service with leases: a hot key over loopback",
		columns: []string{"listener", "store", "requests/s", "p99 µs", "CPU µs", "to memory", "spread", "by CPU", "goal"},
	}
	tools := map[string]string{}
	for _, name := range []string{"wrk", "redis-benchmark", "redis-server"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.note("Left out: %s is missing.", name)
			return []*table{t}, nil
		}
		tools[name] = path
	}
	switch {
	case !r.measuresOwn():
		t.note("Left out: -only does not name %s.", own)
		return []*table{t}, nil
	case runtime.GOOS != "linux":
		t.note("Left out: this system does not report the CPU time of a process.")
		return []*table{t}, nil
	}
	folder, err := os.MkdirTemp("", "bench-leases-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	servers, stop, err := r.openLeaseServers(folder, tools["redis-server"])
	defer stop()
	if err != nil {
		return nil, err
	}
	listeners, err := r.leaseListeners(folder, tools)
	if err != nil {
		return nil, err
	}
	for _, listener := range listeners {
		if err := r.timeLeaseListener(t, listener, servers[:listener.stores]); err != nil {
			return nil, err
		}
	}
	t.note("Medians of %d rounds, the stores in turn; ratios are medians of those within a round. Every request is about the same key and is admitted. "+
		"The service has one processor. CPU is that of the service, without its Redis, and by CPU is the ratio of what the processor could do if it worked for "+
		"the service alone, which others on the machine disturb less. With pipelines of 64, SG.ALLOWs that came together are decided together over "+
		"Redis, and one after the other in memory.", r.leasedRounds())
	return []*table{t}, nil
}

// openLeaseServers starts the service three times: the others are compared with the first one.
func (r *run) openLeaseServers(folder, redis string) (servers []*leasedService, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range slices.Backward(stops) {
			f()
		}
	}
	for _, row := range []struct {
		name, store string
		lease       bool
	}{
		{"memory", "memory:", false}, {"Redis, with leases", "", true}, {"Redis", "", false},
	} {
		if row.store == "" {
			p, err := startRedis(redis)
			if err != nil {
				return nil, stop, err
			}
			stops = append(stops, p.stop)
			row.store = p.url
		}
		s, err := r.startLeaseServer(folder, row.name, row.store, row.lease)
		if err != nil {
			return nil, stop, err
		}
		stops = append(stops, s.stop)
		servers = append(servers, s)
	}
	return servers, stop, nil
}

func (r *run) startLeaseServer(folder, name, store string, lease bool) (*leasedService, error) {
	rules := filepath.Join(folder, fmt.Sprintf("rules-%t.yaml", lease))
	if err := os.WriteFile(rules, fmt.Appendf(nil, leasedRules, lease), 0o600); err != nil {
		return nil, err
	}
	policy := filepath.Join(folder, name+".yaml")
	if err := os.WriteFile(policy, fmt.Appendf(nil, leasedPolicy, store, lease), 0o600); err != nil {
		return nil, err
	}
	p, err := r.startService([]string{"GOMAXPROCS=1"}, "--config="+policy, "--envoy="+rules, "--envoy-headers=none")
	if err != nil {
		return nil, err
	}
	s := &leasedService{name: name, program: p, envoy: &envoyServer{name: name, process: p.process, end: p.stop, keys: 1}}
	s.stop = s.envoy.stop
	if err := s.envoy.connect(p.grpc); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// leaseListeners returns the listeners that are compared.
func (r *run) leaseListeners(folder string, tools map[string]string) ([]leasedListener, error) {
	script := filepath.Join(folder, "hot.lua")
	hot := `wrk.method, wrk.body, wrk.path = "POST", '{"policy":"default","key":"hot","cost":1}', "/v1/allow"` + "\n" +
		`wrk.headers["Content-Type"] = "application/json"` + "\n"
	if err := os.WriteFile(script, []byte(hot), 0o600); err != nil {
		return nil, err
	}
	resp := func(pipeline int) func(s *leasedService) (leasedSample, error) {
		return func(s *leasedService) (leasedSample, error) {
			got, err := r.benchResp(tools["redis-benchmark"], respTarget{s.program.resp, s.program.pid()}, pipeline, []string{"SG.ALLOW", "default", "hot"})
			return leasedSample{got.rate, got.micros, 1000 * got.p99}, err
		}
	}
	return []leasedListener{
		{fmt.Sprintf("JSON, %d connections", wireConnections), 3, func(s *leasedService) (leasedSample, error) {
			got, err := r.timeRow(tools["wrk"], script, &serviceServer{"http://" + s.program.http + "/", s.program.pid(), s.stop})
			if err == nil && got.errors > 0 {
				r.fail("service-leases: %s: %d errors", s.name, got.errors)
			}
			return leasedSample{got.perSecond, got.micros, got.p99}, err
		}},
		{"RESP, " + strconv.Itoa(respConnections) + " connections", 3, resp(1)},
		{"RESP, pipelines of 64", 2, resp(64)},
		{"Envoy, 64 requests at once", 3, func(s *leasedService) (leasedSample, error) {
			if _, err := r.loadEnvoy(s.envoy, 64); err != nil { // a round is short, so the key must be busy when it begins
				return leasedSample{}, err
			}
			got, err := r.loadEnvoy(s.envoy, 64)
			return leasedSample{got.perSecond, got.cpu, got.p99}, err
		}},
	}, nil
}

// timeLeaseListener times one listener with all stores in turn.
func (r *run) timeLeaseListener(t *table, listener leasedListener, servers []*leasedService) error {
	samples := make([][]leasedSample, len(servers))
	for round := range r.leasedRounds() + 1 {
		r.logf("service-leases: %s: round %d of %d", listener.name, round, r.leasedRounds())
		for i := range servers {
			which := (i + round) % len(servers) // so that none is always first
			s, err := listener.time(servers[which])
			if err != nil {
				return fmt.Errorf("%s, %s: %w", listener.name, servers[which].name, err)
			}
			if round > 0 { // the first round warms up
				samples[which] = append(samples[which], s)
			}
		}
	}
	of := func(which int, value func(leasedSample) float64) (values []float64) {
		for _, s := range samples[which] {
			values = append(values, value(s))
		}
		return values
	}
	rate, cpu := func(s leasedSample) float64 { return s.perSecond }, func(s leasedSample) float64 { return s.cpu }
	for i, s := range servers {
		rates := ratios(of(i, rate), of(0, rate))
		result := "-"
		if i == 1 {
			result = fmt.Sprintf("%gx: met", goalLeases)
			if median(rates) < goalLeases {
				result = fmt.Sprintf("%gx: missed", goalLeases)
			}
		}
		t.add("slidegate, "+listener.name, s.name, fmt.Sprintf("%.0f", median(of(i, rate))), fmt.Sprintf("%.0f", median(of(i, func(s leasedSample) float64 { return s.p99 }))),
			fmt.Sprintf("%.2f", median(of(i, cpu))), fmt.Sprintf("%.2fx", median(rates)),
			fmt.Sprintf("%.2f-%.2f", slices.Min(rates), slices.Max(rates)), fmt.Sprintf("%.2fx", median(ratios(of(0, cpu), of(i, cpu)))), result)
	}
	return nil
}

func (r *run) leasedRounds() int { return min(r.rounds, 5) }
