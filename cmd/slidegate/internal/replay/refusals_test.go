package replay

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/traffic"
	"github.com/slidegate/slidegate/rule"
)

// detailedTraffic is traffic with more than keys and costs. It reuses the bytes of its lines, as a reader does.
type detailedTraffic struct {
	rest []detailedRequest
	buf  [5][]byte
}

type detailedRequest struct {
	testRequest
	method, path, agent, status string
}

func (l *detailedTraffic) Next(line *traffic.Line) error {
	if len(l.rest) == 0 {
		return io.EOF
	}
	req := &l.rest[0]
	l.rest = l.rest[1:]
	for i, text := range []string{req.key, req.method, req.path, req.agent, req.status} {
		if l.buf[i] = append(l.buf[i][:0], text...); text == "" {
			l.buf[i] = nil
		}
	}
	*line = traffic.Line{
		At: req.at, Key: l.buf[0], Cost: req.cost, Time: []byte("1"),
		About: traffic.Details{Method: l.buf[1], Path: l.buf[2], Agent: l.buf[3], Status: l.buf[4]},
	}
	return nil
}

// The profiles equal a slow count of the refused requests, also out of order.
func TestRefusedRequestsAreCounted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var reqs []detailedRequest
	for i := range 60_000 {
		key := fmt.Sprint("k", min(r.IntN(40), r.IntN(40)))
		reqs = append(reqs, detailedRequest{
			testRequest: testRequest{origin + rule.Micros(i)*second/50 - rule.Micros(r.IntN(3))*second, key, 1},
			method:      []string{"GET", "POST", ""}[r.IntN(3)], path: "/" + key + "/" + strconv.Itoa(min(r.IntN(9), r.IntN(9))),
			agent: "agent " + strconv.Itoa(r.IntN(3)), status: strconv.Itoa(200 + r.IntN(2)),
		})
	}
	limit := slidegate.MustParseLimit("20/1m sliding-log")
	found, err := Run(context.Background(), &detailedTraffic{rest: reqs}, Options{Limits: []slidegate.Limit{limit}, Top: 3, Sort: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]int64{"method": {}, "path": {}, "agent": {}, "status": {}}
	paths := map[string]map[string]int64{} // by key
	slices.SortStableFunc(reqs, func(a, b detailedRequest) int { return int(a.at - b.at) })
	logs := map[string][]rule.Micros{}
	for _, req := range reqs {
		log := slices.DeleteFunc(logs[req.key], func(at rule.Micros) bool { return at <= req.at-60*second })
		if len(log) < 20 {
			logs[req.key] = append(log, req.at)
			continue
		}
		logs[req.key] = log
		want["method"][req.method]++
		want["path"][req.path]++
		want["agent"][req.agent]++
		want["status"][req.status]++
		if paths[req.key] == nil {
			paths[req.key] = map[string]int64{}
		}
		paths[req.key][req.path]++
	}
	if found.Refused == nil || found.Refused.Requests != found.Outcome.Refused || found.Outcome.Refused == 0 {
		t.Fatalf("got %+v, want a profile of all %d refused requests", found.Refused, found.Outcome.Refused)
	}
	sameValues(t, "methods", found.Refused.Methods, want["method"], topValues)
	sameValues(t, "paths", found.Refused.Paths, want["path"], topValues)
	sameValues(t, "agents", found.Refused.Agents, want["agent"], topValues)
	sameValues(t, "statuses", found.Refused.Statuses, want["status"], topValues)
	for _, key := range found.Outcome.TopRefused {
		if key.Profile == nil || key.Profile.Requests != key.Refused {
			t.Fatalf("%s: got %+v, want a profile of all %d", key.Key, key.Profile, key.Refused)
		}
		sameValues(t, key.Key, key.Profile.Paths, paths[key.Key], topKeyValues)
	}
}

func sameValues(t *testing.T, what string, got []Value, counts map[string]int64, n int) {
	t.Helper()
	var want []Value
	for value, count := range counts {
		want = append(want, Value{value, count})
	}
	slices.SortFunc(want, func(a, b Value) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Value, b.Value))
	})
	if want = want[:min(n, len(want))]; !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Traits that the log does not have are left out.
func TestRefusedRequestsWithoutTraits(t *testing.T) {
	reqs := []detailedRequest{{testRequest: testRequest{origin, "a", 1}}, {testRequest: testRequest{origin, "a", 1}}, {testRequest: testRequest{origin, "b", 1}, status: "200"}, {testRequest: testRequest{origin, "b", 1}, status: "200"}}
	opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("1/1m")}, Top: 2}
	found, err := Run(context.Background(), &detailedTraffic{rest: reqs}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if d := found.Refused; d == nil || d.Requests != 1 || len(d.Methods)+len(d.Paths)+len(d.Agents) != 0 || len(d.Statuses) != 1 {
		t.Errorf("got %+v, want one request with a status", found.Refused)
	}
	if top := found.Outcome.TopRefused; top[0].Profile != nil || top[1].Profile == nil {
		t.Errorf("got %+v, want a profile of b and none of a", top)
	}
}

// However many values and keys there are, the memory is bounded, and frequent values are kept.
func TestRefusalsAreBounded(t *testing.T) {
	var d refusals
	var buf []byte
	for i := range 5 * maxValues {
		path := "/" + strconv.Itoa(i)
		if i%3 == 0 {
			path = "/often"
		}
		key := keyRef{0, uint32(i)}
		if i%5 == 0 {
			key = keyRef{1, 7}
		}
		d.add(noteOf(&traffic.Details{Path: []byte(path)}, &buf), key)
		if len(d.all.traits[traitPath]) > maxValues || len(d.byKey) > maxProfiles {
			t.Fatalf("after %d: %d values, %d keys", i, len(d.all.traits[traitPath]), len(d.byKey))
		}
		for _, own := range d.byKey {
			if len(own.traits[traitPath]) > maxKeyValues {
				t.Fatalf("%d values of a key", len(own.traits[traitPath]))
			}
			break
		}
	}
	found, own := d.all.profile(topValues), d.key(keyRef{1, 7})
	if want := int64((5*maxValues + 2) / 3); found.Paths[0] != (Value{"/often", want}) {
		t.Errorf("got first path %v, want /often %d times", found.Paths[0], want)
	}
	if own == nil || own.Requests != 5*maxValues/5 || own.Paths[0].Value != "/often" {
		t.Errorf("got %+v for the frequent key", own)
	}
}

// A note keeps the beginnings of the traits, and the line may change afterwards.
func TestNotes(t *testing.T) {
	var buf []byte
	path, agent := []byte("/path"), []byte(strings.Repeat("agent", 100))
	n := noteOf(&traffic.Details{Path: path, Agent: agent}, &buf)
	path[1], agent[0] = '-', '-'
	noteOf(&traffic.Details{Path: []byte("/other")}, &buf)
	if got, want := n.traits(), [traitCount]string{traitPath: "/path", traitAgent: strings.Repeat("agent", 51)}; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := noteOf(&traffic.Details{}, &buf); n != "" {
		t.Errorf("got %q, want nothing of a log without traits", n)
	}
}
