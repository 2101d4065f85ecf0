package natskv

import (
	"sync"
	"time"
)

// pulse reports whether a replicated stream is known to have only one leader.
//
// A leader that is cut off from the other servers, or stopped, does not notice when they elect a new one. It continues to answer
// for up to 20 seconds, and for up to a second next to the new leader once it is back. Its reads are out of date, and it may reject
// a swap that the new leader accepts. Its acknowledgements can be trusted, since they need a majority of the servers.
//
// Servers elect a new leader when they have not heard from theirs for at least 4 seconds. So while the writes of this process are
// acknowledged at shorter intervals, there is no election, and only one leader. After a longer gap there may be an old leader,
// until it must have noticed. A process that has nothing to write sends a small message instead.
//
// A pulse is safe for concurrent use. A nil pulse belongs to a stream without replicas, which never has two leaders.
type pulse struct {
	base time.Time

	mu   sync.Mutex
	last beat          // the last write that was acknowledged
	calm time.Duration // since base; from then on there is only one leader, as long as the beats continue
}

// beat is a write that was acknowledged.
type beat struct {
	sent   time.Duration // since base
	server string        // the ID of the server that this process was connected to
}

const (
	beatLifetime  = 3 * time.Second  // less than the shortest time after which servers elect a new leader
	beatEvery     = 1 * time.Second  // after how long without a write this process sends a small message
	oldLeaderTime = 22 * time.Second // longer than an old leader takes to notice that it has been replaced
)

// newPulse returns the pulse of a stream that has had the same leader for some time.
func newPulse(calmFor time.Duration) *pulse {
	return &pulse{base: time.Now(), last: beat{sent: -beatLifetime}, calm: oldLeaderTime - calmFor}
}

// start returns a beat for a write that is sent now; pass it to acknowledged.
func (p *pulse) start(server string) beat {
	if p == nil {
		return beat{}
	}
	return beat{time.Since(p.base), server}
}

// acknowledged records that the write that start returned b for has been acknowledged.
func (p *pulse) acknowledged(b beat) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.sent < p.last.sent {
		return
	}
	if b.sent-p.last.sent >= beatLifetime && p.last.server != "" {
		p.calm = time.Since(p.base) + oldLeaderTime
	}
	p.last = b
}

// steady reports whether there is only one leader, so that a response that has just arrived over the connection to server comes
// from that leader.
func (p *pulse) steady(server string) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Since(p.base)
	return now-p.last.sent < beatLifetime && p.last.server == server && now >= p.calm
}

// due returns the time left until this process has to send a small message.
func (p *pulse) due() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.sent + beatEvery - time.Since(p.base)
}
