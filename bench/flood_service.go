package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A flood of the running service, and its effect on clients of other policies and of the same policy.

// floodCase is a flood of one policy: a number of keys, each with a number of units per request.
type floodCase struct {
	limit    string
	quota    int64
	window   time.Duration
	cost     int64
	minShare float64 // the share of first-time clients that must be admitted
	whole    float64 // the share of them that must get their whole quota
}

// fades reports whether units begin to return at the next multiple of the window, as in a weighted window.
func (c *floodCase) fades() bool { return c.quota > 100 }

func floodCases() []floodCase {
	const day = 24 * time.Hour
	return []floodCase{
		{"5/1m", 5, time.Minute, 1, 0.99, 0.9},
		{"5/1m", 5, time.Minute, 5, 0.99, 0},
		{"3/1d", 3, day, 1, 0.99, 0.9},
		{"3/1d", 3, day, 3, 0.99, 0},
		{"100/1m", 100, time.Minute, 1, 1, 0},
		{"1000/1m", 1000, time.Minute, 1, 1, 0},
	}
}

// Numbers of keys; the keys of the flood begin at 0.
const (
	firstTimers = 1_000_000_000 // clients that come after the flood
	refusedKeys = 2_000_000_000 // keys that used up their quota before or during the flood
)

// floodSizes holds the sizes of the floods.
type floodSizes struct {
	other, same int // keys of a flood of another policy, and of the policy itself
	clients     int // first-time clients after it
	refused     int // keys that were refused before, for each tenth of the flood
	bound       string
}

func (r *run) floodSizes() floodSizes {
	if r.quick { // a smaller store, so that it overflows too
		return floodSizes{other: 20_000, same: 20_000, clients: 500, refused: 10, bound: "memory:?max_bytes=1MiB"}
	}
	return floodSizes{other: 3_000_000, same: 10_000_000, clients: 20_000, refused: 200, bound: "memory:"}
}

// floodServiceTables floods the real service at its default bounds.
func (r *run) floodServiceTables() ([]*table, error) {
	if !r.measuresOwn() {
		return nil, nil
	}
	others, err := r.floodOthers()
	if err != nil {
		return nil, err
	}
	same := &table{
		title: fmt.Sprintf("Flood of the service: %s keys of one policy, and then %s first-time clients of the same policy",
			count(r.floodSizes().same), count(r.floodSizes().clients)),
		columns: []string{"limit", "units each", "flood s", "flood admitted", "first-time admitted", "goal", "whole quota", "goal", "still refused",
			"over quota", "resident MB", "most MB"},
	}
	for _, c := range floodCases() {
		if err := r.floodSame(same, &c); err != nil {
			return nil, fmt.Errorf("flood of %s: %w", c.limit, err)
		}
	}
	same.note("The flood comes over RESP, pipelined; first-time clients over JSON. A first-time client sends one request, and then takes the rest of its quota. " +
		"Still refused: keys that had used up their quota before the flood or during it, and whose window has not passed, nor begun to fade. Over quota: " +
		"keys of the end of the flood that were admitted more than their quota, of a sample. Resident is what the service holds of the machine's memory after the flood, " +
		"and the most that it held.")
	return []*table{others, same}, nil
}

// addRow adds a row, and prints it as progress, since floods take long and the table is printed at the end.
func (r *run) addRow(t *table, cells ...string) {
	t.add(cells...)
	r.logf("%s", strings.Join(cells, " | "))
}

// startFlooded starts the service with policies, by default in memory with its default bounds.
func (r *run) startFlooded(policies ...string) (*program, error) {
	path := filepath.Join(r.folder, "flood.yaml")
	text := "store: " + strconv.Quote(r.floodSizes().bound) + "\npolicies:\n  " + strings.Join(policies, "\n  ") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return r.startService(nil, "--config="+path)
}

// floodConns is the number of connections of a flood.
const floodConns = 4

// floodOthers floods one policy, and measures first-time clients of others.
func (r *run) floodOthers() (*table, error) {
	sizes := r.floodSizes()
	t := &table{
		title:   fmt.Sprintf("Flood of the service: %s keys of api, 1000/1m, and then %s first-time clients of other policies", count(sizes.other), count(sizes.clients)),
		columns: []string{"policy", "over", "first-time clients", "refused", "goal"}, names: 2,
	}
	service, err := r.startFlooded(`api: {key: "{header:X-Api-Key}", limits: [1000/1m]}`, "login: {limits: [5/10m]}", `mail: {key: "{key}", limits: [3/1d]}`,
		`search: {key: "{key}", limits: [1000/1m]}`)
	if err != nil {
		return nil, err
	}
	defer service.stop()
	// The policy mail has clients before the flood, as a policy in use does; an unused table is another case.
	if err := takeJSON(service.http, "mail", 0, 100, 1, func(int, bool) {}); err != nil {
		return nil, err
	}
	r.logf("flood of another policy: %s keys", count(sizes.other))
	if _, err := floodPolicy(service, "api", sizes.other, 1, nil); err != nil {
		return nil, err
	}
	refused, err := checkClients(service.http, "login", sizes.clients)
	if err != nil {
		return nil, err
	}
	r.addRow(t, "login, 5/10m", "/v1/check", count(sizes.clients), fmt.Sprint(refused), met(refused == 0, "0"))
	for _, policy := range []string{"mail", "search"} {
		refused := 0
		err := takeJSON(service.http, policy, firstTimers, sizes.clients, 1, func(_ int, allowed bool) {
			if !allowed {
				refused++
			}
		})
		if err != nil {
			return nil, err
		}
		r.addRow(t, map[string]string{"mail": "mail, 3/1d", "search": "search, 1000/1m"}[policy], "JSON", count(sizes.clients), fmt.Sprint(refused), met(refused == 0, "0"))
	}
	return t, nil
}

func met(reached bool, goal string) string {
	if reached {
		return goal + ": met"
	}
	return goal + ": missed"
}

// checkClients sends the first request of each of many clients, by address.
func checkClients(address, policy string, n int) (refused int, err error) {
	const callers = 8
	var total atomic.Int64
	errs := make([]error, callers)
	var done sync.WaitGroup
	for i := range callers {
		done.Go(func() {
			for at := i; at < n && errs[i] == nil; at += callers {
				allowed, err := check(address, policy, fmt.Sprintf("100.%d.%d.%d", 64+at>>16, at>>8&255, at&255))
				if errs[i] = err; err == nil && !allowed {
					total.Add(1)
				}
			}
		})
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return int(total.Load()), nil
}

// floodPolicy sends the keys from 0 to n, and returns which were admitted. After each tenth it calls between if it is not nil.
func floodPolicy(service *program, policy string, n int, cost int64, between func(crew respCrew, tenth int) error) (admitted []uint8, err error) {
	crew, err := dialCrew(service.resp, floodConns)
	if err != nil {
		return nil, err
	}
	defer crew.close()
	admitted = make([]uint8, n)
	for tenth := range 10 {
		if between != nil {
			if err := between(crew, tenth); err != nil {
				return nil, err
			}
		}
		from, to := tenth*n/10, (tenth+1)*n/10
		err := crew.send(take, policy, from, to-from, cost, func(number int, _, granted int64) {
			if granted > 0 {
				admitted[number] = 1
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return admitted, nil
}

// floodSame floods a policy, and measures first-time clients of the same policy.
func (r *run) floodSame(t *table, c *floodCase) error {
	sizes := r.floodSizes()
	service, err := r.startFlooded(fmt.Sprintf(`flooded: {key: "{key}", limits: [%s]}`, c.limit))
	if err != nil {
		return err
	}
	defer service.stop()
	r.logf("flood of %s, %d units each: %s keys", c.limit, c.cost, count(sizes.same))
	before := &exhaustedKeys{each: sizes.refused}
	start := time.Now()
	admitted, err := floodPolicy(service, "flooded", sizes.same, c.cost, func(crew respCrew, tenth int) error { return before.useUp(crew[0], c, tenth) })
	if err != nil {
		return err
	}
	took := time.Since(start)
	resident, most := memoryOf(service.pid())
	passed, whole, err := takeFirstTimers(service, c, sizes.clients)
	if err != nil {
		return err
	}
	still, of, err := before.countRefused(service, c)
	if err != nil {
		return err
	}
	over, err := countOver(service, c, admitted, before.when[9])
	if err != nil {
		return err
	}
	if still != of || over > 0 {
		r.fail("flood of %s, %d units each: %d of %d keys still refused, %d over their quota", c.limit, c.cost, still, of, over)
	}
	share, wholeShare := float64(passed)/float64(sizes.clients), float64(whole)/float64(sizes.clients)
	wholeGoal := ""
	if c.whole > 0 {
		wholeGoal = met(wholeShare >= c.whole, percent(c.whole))
	}
	r.addRow(t, c.limit, fmt.Sprint(c.cost), fmt.Sprintf("%.0f", took.Seconds()), percent(shareSet(admitted)), percent(share), met(share >= c.minShare, percent(c.minShare)),
		percent(wholeShare), wholeGoal, fmt.Sprintf("%d of %d", still, of), fmt.Sprint(over), megabytes(resident), megabytes(most))
	return nil
}

// shareSet returns the share of the flags that is set.
func shareSet(flags []uint8) float64 {
	sum := 0
	for _, flag := range flags {
		sum += int(flag)
	}
	return float64(sum) / float64(max(len(flags), 1))
}

// takeFirstTimers sends one request for each of n new clients, and then takes the rest of their quota. It returns how many clients
// were admitted, and how many got their whole quota.
func takeFirstTimers(service *program, c *floodCase, n int) (passed, whole int, err error) {
	err = takeJSON(service.http, "flooded", firstTimers, n, 1, func(_ int, allowed bool) {
		if allowed {
			passed++
		}
	})
	if err != nil {
		return 0, 0, err
	}
	err = takeJSON(service.http, "flooded", firstTimers, n, c.quota-1, func(_ int, allowed bool) {
		if allowed {
			whole++
		}
	})
	return passed, whole, err
}

// margin is how far the clock of this program may differ from the service's at the end of a window.
const margin = time.Second

// exhaustedKeys are keys that used up their quota before the flood and during it, some before each tenth of it, so that they are
// refused for a window.
type exhaustedKeys struct {
	each int
	when [10]time.Time // when they began to
	full [10]map[int]bool
}

// useUp takes the whole quota of the keys, and records which of them got their whole quota. Other keys may be admitted again earlier,
// since a new key begins with a state that is older than the key.
func (b *exhaustedKeys) useUp(c *respConn, of *floodCase, tenth int) error {
	b.when[tenth], b.full[tenth] = time.Now(), map[int]bool{}
	return c.send(take, "flooded", refusedKeys+tenth*b.each, b.each, of.quota, func(number int, _, granted int64) {
		if granted == of.quota {
			b.full[tenth][number] = true
		}
	})
}

// countRefused returns how many keys are still refused, of those whose window has not passed.
func (b *exhaustedKeys) countRefused(service *program, c *floodCase) (still, of int, err error) {
	for tenth, at := range b.when {
		if time.Since(at) > c.window-margin || c.fades() && at.Truncate(c.window) != time.Now().Add(margin).Truncate(c.window) {
			continue
		}
		of += len(b.full[tenth])
		err := takeJSON(service.http, "flooded", refusedKeys+tenth*b.each, b.each, 1, func(number int, allowed bool) {
			if b.full[tenth][number] && !allowed {
				still++
			}
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return still, of, nil
}

// countOver returns how many of the last keys of the flood have more left than what they were admitted leaves of their quota.
// If their window has passed, as on a slow machine, this shows nothing.
func countOver(service *program, c *floodCase, admitted []uint8, since time.Time) (over int, err error) {
	n := min(2000, len(admitted)/10)
	first := len(admitted) - n
	client, err := dialResp(service.resp)
	if err != nil {
		return 0, err
	}
	defer client.conn.Close()
	err = client.send(peek, "flooded", first, n, 1, func(number int, remaining, _ int64) {
		if remaining+c.cost*int64(admitted[number]) > c.quota {
			over++
		}
	})
	if time.Since(since) > c.window-margin {
		return 0, err
	}
	return over, err
}

// memoryOf returns the resident memory of a process, and its maximum; 0 if the system does not report it.
func memoryOf(pid string) (now, most int64) {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0, 0
	}
	read := func(name string) int64 {
		for line := range strings.Lines(string(text)) {
			if value, found := strings.CutPrefix(line, name+":"); found {
				n, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64) // digits, followed by "kB"
				return n << 10
			}
		}
		return 0
	}
	return read("VmRSS"), read("VmHWM")
}
