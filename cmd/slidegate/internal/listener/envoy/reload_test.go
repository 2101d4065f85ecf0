package envoy

import (
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

func newStore(t testing.TB) store.Store {
	t.Helper()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestReloadKeepsCounts(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	r.want(request("d", 4, "k=a"), "OK: OK/1")
	reload := func(text string) {
		t.Helper()
		if err := r.service.Reload([]*Domain{mustParse(t, text)}); err != nil {
			t.Fatal(err)
		}
	}
	reload(strings.Replace(strings.Replace(fivePerMinute, "unit: 5", "unit: 9", 1), "name: five", "name: nine", 1))
	r.want(request("d", 1, "k=a"), "OK: OK/4")
	reload(strings.Replace(fivePerMinute, "unit: minute, requests_per_unit: 5", "window: 60s, requests_per_unit: 6", 1))
	r.want(request("d", 1, "k=a"), "OK: OK/0")
	reload(strings.Replace(fivePerMinute, "requests_per_unit: 5", "requests_per_unit: 5, algorithm: sliding-window", 1))
	r.want(request("d", 1, "k=a"), "OK: OK/4") // another shape starts empty
	reload("domain: other")
	r.want(request("d", 1, "k=a"), "OK: OK/-")
}

func TestReloadIsAllOrNothing(t *testing.T) {
	r := newRig(t, Options{}, fivePerMinute)
	other := mustParse(t, "domain: e\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]")
	for _, domains := range [][]*Domain{
		{other, mustParse(t, fivePerMinute), mustParse(t, "domain: e\ncharging: all")},
		{other, nil},
		{other, {}},
	} {
		if err := r.service.Reload(domains); err == nil {
			t.Errorf("%v: got no error, want one", domains)
		}
		r.want(request("d", 0, "k=x"), "OK: OK/4")
		r.want(request("e", 0, "k=x"), "OK: OK/-")
		r.clock.Advance(60_000_000)
	}
	err := r.service.Reload([]*Domain{other, other})
	if err == nil || !strings.Contains(err.Error(), `test.yaml:2:15: the descriptor e.k has a rate_limit here and in test.yaml:2:15`) {
		t.Errorf("got %v", err)
	}
}

// refusingStore is a store that does not support quotas above 7.
type refusingStore struct{ store.Store }

func (refusingStore) Check(limit *store.Limit) error {
	if limit.Rule().Quota > 7 {
		return store.ErrUnsupported
	}
	return nil
}

func TestUnsupportedLimitIsRejected(t *testing.T) {
	file := "domain: d\ndescriptors: [{key: k, descriptors: [{key: l, value: 'x*', rate_limit: {unit: day, requests_per_unit: 8}}]}]"
	if _, err := New(refusingStore{newStore(t)}, []*Domain{mustParse(t, file)}, Options{}); err == nil || !strings.Contains(err.Error(), `test.yaml: domain "d"`) {
		t.Errorf("got %v", err)
	}
	if _, err := New(nil, nil, Options{}); err == nil {
		t.Error("no store: got no error, want one")
	}
}

// Concurrent reloads and requests, for the race detector: no request is lost.
func TestReloadUnderLoad(t *testing.T) {
	r := newRig(t, Options{}, strings.Replace(fivePerMinute, "requests_per_unit: 5", "requests_per_unit: 1000", 1))
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 50 {
				if _, err := r.trySend(request("d", 1, "k=a", "k=b")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 20 {
		text := strings.Replace(fivePerMinute, "requests_per_unit: 5", []string{"requests_per_unit: 1000", "requests_per_unit: 2000"}[i%2], 1)
		if err := r.service.Reload([]*Domain{mustParse(t, text)}); err != nil {
			t.Error(err)
		}
	}
	callers.Wait()
	if err := r.service.Reload([]*Domain{mustParse(t, strings.Replace(fivePerMinute, "unit: 5", "unit: 201", 1))}); err != nil {
		t.Fatal(err)
	}
	r.want(request("d", 1, "k=a", "k=b"), "OK: OK/0 OK/0") // exactly 200 were counted
}
