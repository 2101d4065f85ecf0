package faults_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/pgtest"
)

// pairs is how often each attack is repeated, each time after a control without it.
const pairs = 4

// TestAttacks lets clients be as busy as they can: a client that has used up its quota must not be admitted because it, or others,
// keep the store busy.
func TestAttacks(t *testing.T) {
	if !*all {
		t.Skip("SKIPPED: make long T=faults measures all attacks; TestPromises checks the most important one")
	}
	emit(t, `
| store | program | pair | client, 3 s | requests | by the failure mode | admitted where it was refused | admitted on the other instance |
|---|---|---|---|---|---|---|---|
`)
	for _, target := range []struct {
		store       string
		connections int
		start       func(t *testing.T, p program) (first, second *service)
	}{
		{"PostgreSQL", 8, twoOnPostgres},
		{"NATS, three embedded", 60, twoOfThree},
	} {
		for pair := range pairs {
			for _, p := range programs() {
				t.Run(target.store+"/"+strconv.Itoa(pair+1)+"/"+p.String(), func(t *testing.T) {
					first, second := target.start(t, p)
					line := func(name string, c *count) {
						emit(t, fmt.Sprintf("| %s | %s | %d | %s | %d | %.0f %% | %d | %d |\n", target.store, p, pair+1, name,
							c.requests.Load(), 100*float64(c.fallbacks.Load())/float64(max(1, c.requests.Load())), c.first.Load(), c.second.Load()))
					}
					const lasts = 3 * time.Second
					line("control", usedUpClient(t, first, second, "control", 0, lasts))
					line(fmt.Sprintf("beside %d connections with invented keys", target.connections),
						usedUpClient(t, first, second, "attacked", target.connections, lasts))
					line("90 connections of its own, count-refused", hammer(t, first, second, "hammered", 90, lasts))
				})
			}
		}
	}
}

// twoOnPostgres starts two instances on one database.
func twoOnPostgres(t *testing.T, p program) (first, second *service) {
	s := pgtest.Start(t, "fsync = off")
	return serve(t, p, policies(s.URL(), p)), serve(t, p, policies(s.URL(), p))
}

// twoOfThree starts a cluster of three, and returns two of them.
func twoOfThree(t *testing.T, p program) (first, second *service) {
	c := newEmbedded(t, p)
	for i := range c.members {
		c.start(t, i)
	}
	return c.members[0], c.members[1]
}

// count is what a client was admitted.
type count struct {
	requests, fallbacks atomic.Int64
	first, second       atomic.Int64 // admitted by each instance
}

func (c *count) note(d decision, admitted *atomic.Int64) {
	c.requests.Add(1)
	if d.fallback() {
		c.fallbacks.Add(1)
	}
	if d.admitted() {
		admitted.Add(1)
	}
}

// usedUpClient uses up a key on the first instance, and then asks both instances for more, beside connections to each of them
// that ask for invented keys of a policy with a large quota.
func usedUpClient(t *testing.T, first, second *service, key string, connections int, lasts time.Duration) *count {
	t.Helper()
	ready(t, first, second)
	first.useUp(t, "default", key)
	c, ended := &count{}, make(chan struct{})
	var clients sync.WaitGroup
	loop := func(do func(n int)) {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				default:
					do(n)
				}
			}
		})
	}
	for i := range connections {
		loop(func(n int) { first.ask("many", fmt.Sprint(key, "-a-", i, "-", n)) })
		loop(func(n int) { second.ask("many", fmt.Sprint(key, "-b-", i, "-", n)) })
	}
	pass(lasts / 6)
	for range 2 {
		loop(func(int) { c.note(first.ask("default", key), &c.first) })
		loop(func(int) { c.note(second.ask("default", key), &c.second) })
	}
	pass(lasts)
	close(ended)
	clients.Wait()
	return c
}

// hammer uses up a key whose refusals are counted on the first instance, and then asks for it over many connections, half of them to
// each instance.
func hammer(t *testing.T, first, second *service, key string, connections int, lasts time.Duration) *count {
	t.Helper()
	ready(t, first, second)
	first.useUp(t, "counted", key)
	c, began := &count{}, time.Now()
	var clients sync.WaitGroup
	for range connections / 2 {
		clients.Go(func() {
			for time.Since(began) < lasts {
				c.note(first.ask("counted", key), &c.first)
			}
		})
		clients.Go(func() {
			for time.Since(began) < lasts {
				c.note(second.ask("counted", key), &c.second)
			}
		})
	}
	clients.Wait()
	return c
}

// ready waits until the store decides for all instances.
func ready(t *testing.T, instances ...*service) {
	t.Helper()
	for _, s := range instances {
		testkit.Eventually(t, "the store decides", func() bool { return s.ask("many", "first").byStore() })
	}
}
