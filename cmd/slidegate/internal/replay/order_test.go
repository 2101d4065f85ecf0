package replay

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// These tests check that traffic is decided in order of time, as far as possible.

// shuffle returns requests in an order in which none follows one that is later by more than the distance.
func shuffle(t *rapid.T, times []rule.Micros, distance rule.Micros) []request {
	type logged struct {
		at, ended rule.Micros
	}
	var lines []logged
	for _, at := range times {
		lines = append(lines, logged{at, at + rule.Micros(rapid.Int64Range(0, int64(distance)).Draw(t, "took"))})
	}
	slices.SortStableFunc(lines, func(a, b logged) int { return cmp.Compare(a.ended, b.ended) })
	var requests []request
	for i, l := range lines {
		requests = append(requests, request{at: l.at, cost: 1, seq: int64(i)})
	}
	return requests
}

// releaseTo appends the requests that an order passes on to out.
func releaseTo(t tb, o *order, out []request, all bool) []request {
	o.release(all, func(piece []request) {
		if len(piece) == 0 || len(piece) > batchSize {
			t.Fatalf("%d requests were passed on at a time", len(piece))
		}
		out = append(out, piece...)
	})
	return out
}

// passThrough passes requests through an order, which releases them at random times.
func passThrough(t *rapid.T, o *order, requests []request) []request {
	var out []request
	for _, r := range requests {
		o.add(r)
		if rapid.IntRange(0, 3).Draw(t, "release") == 0 {
			out = releaseTo(t, o, out, false)
		}
	}
	return releaseTo(t, o, out, true)
}

func drawTimes(t *rapid.T, distance rule.Micros) []rule.Micros {
	at := origin
	var times []rule.Micros
	for range rapid.IntRange(1, 120).Draw(t, "requests") {
		at += rapid.SampledFrom([]rule.Micros{0, 0, 1, 2, distance / 3, distance, distance + 1}).Draw(t, "gap")
		times = append(times, at)
	}
	return times
}

// plainOrder counts the requests out of order by comparing each with all before it.
func plainOrder(requests []request) (found Order) {
	for i, r := range requests {
		var latest rule.Micros
		for _, before := range requests[:i] {
			latest = max(latest, before.at)
		}
		if r.at < latest {
			found.OutOfOrder++
			found.Furthest = max(found.Furthest, latest-r.at)
		}
	}
	return found
}

func TestShuffledWithinTheDistanceIsSorted(t *testing.T) {
	property(t, 600, func(t *rapid.T) {
		distance := rapid.SampledFrom([]rule.Micros{1, 7, 1_000, 10 * second}).Draw(t, "distance")
		requests := shuffle(t, drawTimes(t, distance), distance)
		o := newOrder(distance)
		out := passThrough(t, o, requests)
		want := slices.Clone(requests)
		slices.SortStableFunc(want, func(a, b request) int { return cmp.Compare(a.at, b.at) })
		if !reflect.DeepEqual(out, want) {
			t.Fatalf("got %v, want %v", out, want)
		}
		if counts := plainOrder(requests); o.found != counts {
			t.Fatalf("got %+v, want %+v", o.found, counts)
		}
	})
}

// Every request, however late, is passed on once; a request older than one already passed on is counted as too late.
func TestNothingIsLostAndLateRequestsAreCounted(t *testing.T) {
	property(t, 600, func(t *rapid.T) {
		distance := rapid.SampledFrom([]rule.Micros{1, 100, 5_000}).Draw(t, "distance")
		requests := shuffle(t, drawTimes(t, distance), 10*distance)
		o := newOrder(distance)
		want := plainOrder(requests)
		var out []request
		for _, r := range requests {
			if slices.ContainsFunc(out, func(before request) bool { return before.at > r.at }) {
				want.TooLate++
			}
			o.add(r)
			if rapid.IntRange(0, 3).Draw(t, "release") != 0 {
				continue
			}
			before := len(out)
			out = releaseTo(t, o, out, false)
			if !slices.IsSortedFunc(out[before:], func(a, b request) int { return cmp.Compare(a.at, b.at) }) {
				t.Fatalf("passed on out of order: %v", out[before:])
			}
			for _, waits := range o.pending {
				if waits.at <= o.latest-distance {
					t.Fatalf("%+v still waits, although %d was read", waits, o.latest)
				}
			}
		}
		out = releaseTo(t, o, out, true)
		slices.SortFunc(out, func(a, b request) int { return cmp.Compare(a.seq, b.seq) })
		if !reflect.DeepEqual(out, requests) || len(o.pending) != 0 {
			t.Fatalf("got %v and %v of %v", out, o.pending, requests)
		}
		if o.found != want {
			t.Fatalf("got %+v, want %+v", o.found, want)
		}
	})
}

// A distance of 0 leaves the traffic unchanged. Requests out of order are then decided as they come.
func TestNoDistanceKeepsTheOrder(t *testing.T) {
	property(t, 200, func(t *rapid.T) {
		requests := shuffle(t, drawTimes(t, 100), 1_000)
		o := newOrder(0)
		if out := passThrough(t, o, requests); !reflect.DeepEqual(out, requests) {
			t.Fatalf("got %v, want %v", out, requests)
		}
		want := plainOrder(requests)
		want.TooLate = want.OutOfOrder
		if o.found != want {
			t.Fatalf("got %+v, want %+v", o.found, want)
		}
	})
}

// A request exactly as late as the distance is sorted, a later one is not.
func TestDistanceByHand(t *testing.T) {
	o := newOrder(10)
	for i, at := range []rule.Micros{100, 103, 110} {
		o.add(request{at: at, seq: int64(i)})
	}
	out := releaseTo(t, o, nil, false)
	if len(out) != 1 || out[0].at != 100 {
		t.Fatalf("got %v, want the request of 100, which is 10 older than the latest", out)
	}
	o.add(request{at: 100, seq: 3}) // just as late as the distance
	o.add(request{at: 99, seq: 4})  // too late
	o.add(request{at: 104, seq: 5})
	out = releaseTo(t, o, out, true)
	var order []int64
	for _, r := range out {
		order = append(order, r.seq)
	}
	if want := []int64{0, 4, 3, 1, 5, 2}; !reflect.DeepEqual(order, want) {
		t.Errorf("got order %v, want %v", order, want)
	}
	if want := (Order{OutOfOrder: 3, Furthest: 11, TooLate: 1}); o.found != want {
		t.Errorf("got %+v, want %+v", o.found, want)
	}
}

// Never more than maxPending requests wait, whether none of them has waited long enough or only a few. The traffic gets
// faster: a hundred requests in as many microseconds, then a million in one, then 32 in each.
func TestPendingIsBounded(t *testing.T) {
	for name, distance := range map[string]rule.Micros{"none is old enough": second, "a few are": 1_000} {
		t.Run(name, func(t *testing.T) {
			o := newOrder(distance)
			o.threshold = maxPending
			var out []request
			var passed, read int64
			at := origin
			for read < maxPending+50*checkEvery {
				for range checkEvery {
					o.add(request{at: at, seq: read})
					if read++; read < 100 {
						at++
					}
				}
				switch {
				case read >= maxPending:
					at++
				case read >= 100:
					at = origin + 1_000
				}
				if !o.full() {
					continue
				}
				out = releaseTo(t, o, out[:0], false)
				if len(out) > 0 && (out[0].seq != passed || out[len(out)-1].seq != passed+int64(len(out))-1) {
					t.Fatalf("got %d requests from %d on after %d others", len(out), out[0].seq, passed)
				}
				passed += int64(len(out))
				if len(o.pending) >= maxPending {
					t.Fatalf("got %d waiting requests of %d read", len(o.pending), read)
				}
			}
			if out = releaseTo(t, o, out[:0], true); passed+int64(len(out)) != read {
				t.Errorf("got %d of %d requests, want all", passed+int64(len(out)), read)
			}
		})
	}
}

// In a whole replay over many batches, traffic shuffled within the distance is decided like sorted traffic, and late
// requests are decided too.
func TestShuffledTrafficIsDecidedAsSorted(t *testing.T) {
	const distance = 2 * second
	var sorted []testRequest
	for i := range rule.Micros(15_000) {
		sorted = append(sorted, testRequest{origin + i*i%1_000 + i*10*milli, "key-" + strconv.Itoa(int(i*i)%57), 1})
	}
	slices.SortStableFunc(sorted, func(a, b testRequest) int { return cmp.Compare(a.at, b.at) })
	shuffled := slices.Clone(sorted)
	late := func(a testRequest) rule.Micros { return a.at + (a.at*7919)%distance }
	slices.SortStableFunc(shuffled, func(a, b testRequest) int { return cmp.Compare(late(a), late(b)) })
	if reflect.DeepEqual(sorted, shuffled) {
		t.Fatal("the traffic was not shuffled")
	}
	opts := Options{Limits: []slidegate.Limit{slidegate.MustParseLimit("2/1s anchor=first")}, Top: 100, Sort: 2 * time.Second}
	want, got := find(t, opts, sorted), find(t, opts, shuffled)
	if want.Outcome.Refused == 0 {
		t.Fatal("got no refusals, want some: otherwise nothing is tested")
	}
	requests, _ := numbered(shuffled)
	order := plainOrderQuick(requests)
	if got.Traffic.Order != order {
		t.Errorf("got %+v, want %+v", got.Traffic.Order, order)
	}
	sameOutcome(t, &got.Outcome, &want.Outcome)

	opts.Sort = 0
	unsorted := find(t, opts, shuffled)
	decided := decideAll(t, opts.Limits, shuffled)
	var refused int64
	for i := range decided {
		if !decided[i].allowed {
			refused++
		}
	}
	if unsorted.Outcome.Refused != refused || unsorted.Traffic.Order.Furthest != order.Furthest {
		t.Errorf("without sorting: got %d refused, %+v, want %d, and as far out of order", unsorted.Outcome.Refused, unsorted.Traffic.Order, refused)
	}
}

func plainOrderQuick(requests []request) (found Order) {
	var latest rule.Micros
	for _, r := range requests {
		if r.at < latest {
			found.OutOfOrder++
			found.Furthest = max(found.Furthest, latest-r.at)
		}
		latest = max(latest, r.at)
	}
	return found
}

// sameOutcome compares outcomes of the same requests in different input orders, in which keys have different numbers.
func sameOutcome(t tb, got, want *Outcome) {
	t.Helper()
	byName := func(a, b KeyOutcome) int { return cmp.Compare(a.Key, b.Key) }
	a, b := *got, *want
	a.TopRefused, b.TopRefused = slices.SortedFunc(slices.Values(a.TopRefused), byName), slices.SortedFunc(slices.Values(b.TopRefused), byName)
	if !reflect.DeepEqual(a.TopRefused, b.TopRefused) || !reflect.DeepEqual(a.Limits, b.Limits) {
		t.Errorf("%+v\n%+v, want\n%+v\n%+v", a.TopRefused, a.Limits, b.TopRefused, b.Limits)
	}
	a.TopRefused, b.TopRefused, a.Limits, b.Limits = nil, nil, nil, nil
	if a.Admitted != b.Admitted || a.Refused != b.Refused || a.UnitsAdmitted != b.UnitsAdmitted ||
		a.UnitsRefused != b.UnitsRefused || a.KeysTouched != b.KeysTouched || a.Lockout != b.Lockout {
		t.Errorf("got %+v, want\n%+v", a, b)
	}
}
