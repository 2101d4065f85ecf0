package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/store"
)

// slotsScript is a script that returns which node has which hash slots: a line with the first slot, the last one and the node's ID
// for each range. Clients do not export their tables.
var slotsScript = newScript(`local lines = {}
for i, range in ipairs(redis.call('CLUSTER', 'SLOTS')) do
  lines[i] = range[1] .. ' ' .. range[2] .. ' ' .. range[3][3]
end
return table.concat(lines, '\n')`)

const (
	slots        = 16384
	maxNodes     = 1024             // numbers of nodes are below it, as store.Nodes requires
	refreshEvery = time.Second      // while calls fail
	refreshAfter = 15 * time.Second // since the last call that failed: a replica that takes over may need some time to be known
	refreshTime  = 5 * time.Second  // how long a refresh may take
)

// nodes knows the nodes of a cluster. It is read when a node is asked for first, and repeatedly while calls fail and for some time
// after that: keys move to another node when theirs has failed. The zero value is ready to use.
type nodes struct {
	table atomic.Pointer[[slots]uint16] // numbers of nodes by slot; nil if it is not known, 0 if there is none

	mu      sync.Mutex
	until   time.Time         // when to stop reading it
	read    time.Time         // when it was read last
	reading bool              // it is being read, or a timer is set for that
	useless bool              // the server does not tell
	tried   int               // how often
	numbers map[string]uint16 // by ID
}

// Node returns the number of the node that has the keys of an address; see store.Nodes. It is 0 if that is not known, and for a store
// that is not a cluster.
func (s *Store) Node(_ *store.Limit, group, key string) int {
	if !s.cluster {
		return 0
	}
	table := s.nodes.table.Load()
	if table == nil {
		s.refreshNodes(0)
		return 0
	}
	if group == "" {
		group = key
	}
	var space [128]byte
	return int(table[tagSlot(appendTag(space[:0], group))])
}

// refreshNodes reads the table of a cluster's nodes in the background, once or repeatedly for some time.
func (s *Store) refreshNodes(during time.Duration) {
	if !s.cluster {
		return
	}
	n := &s.nodes
	n.mu.Lock()
	defer n.mu.Unlock()
	if until := time.Now().Add(during); until.After(n.until) {
		n.until = until
	}
	if !n.reading && !n.useless {
		n.reading = true
		go s.readNodes()
	}
}

// readNodes reads the table, and sets a timer to read it again.
func (s *Store) readNodes() {
	n := &s.nodes
	n.mu.Lock()
	if n.useless || n.until.Before(n.read) { // nothing has failed, or asked for the table, since
		n.reading = false
		n.mu.Unlock()
		return
	}
	n.read = time.Now()
	n.tried++
	name := fmt.Sprintf("%s:nodes:{%d}", s.opts.Prefix, n.tried) // on another node each time, since one may be down
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), refreshTime)
	defer cancel()
	calls, err := s.runOnce(ctx, &slotsScript, []Call{{Keys: []string{name}}})
	if err == nil {
		n.set(calls[0].Reply)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	// A user without the permission, or a server without the command.
	n.useless = err != nil && replyOf(err) != "" && !errors.Is(err, store.ErrDown) && !errors.Is(err, store.ErrUndone)
	time.AfterFunc(refreshEvery, s.readNodes)
}

// set replaces the table by the reply of slotsScript. A node keeps its number.
func (n *nodes) set(reply string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.numbers == nil {
		n.numbers = map[string]uint16{}
	}
	table := new([slots]uint16)
	for line := range strings.Lines(reply) {
		var first, last int
		var id string
		if _, err := fmt.Sscan(line, &first, &last, &id); err != nil || first < 0 || last >= slots {
			return
		}
		number, known := n.numbers[id]
		if !known && len(n.numbers) < maxNodes-1 {
			number = uint16(len(n.numbers) + 1)
			n.numbers[id] = number
		}
		for ; first <= last; first++ {
			table[first] = number
		}
	}
	n.table.Store(table)
}

// anyFailed reports whether a call of the round trip failed.
func (t *roundTrip) anyFailed() bool {
	for i := range t.calls {
		if t.calls[i].Err != nil {
			return true
		}
	}
	return false
}
