package natskv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/slidegate/slidegate/kvstore/serverclock"
)

// pulse is what this process knows about the leader of the stream: what its clock shows, and whether it leads.
//
// A server that is cut off from the others goes on answering reads as the leader that it was, for ten to twenty seconds, and the others
// choose another leader meanwhile. They do so when they have not heard of it for at least four seconds. So a read can be relied on if
// something was written shortly before, over the same connection: it was acknowledged by most of the servers, which have heard of their
// leader then, and follow nobody else yet.
//
// When nothing was written for longer than that, there may have been another leader meanwhile, and the old one may still be there, next
// to the one that acknowledges writes. Then what was written must also be read back: a server that has it follows, or is, the new one.
type pulse struct {
	engine  *Engine
	name    string // of the message that is written where there is nothing else to write
	cluster bool   // otherwise there is one server, which always leads
	base    time.Time
	last    atomic.Pointer[beat]
	writing chan struct{} // holds one value while that message is written
}

// beat is a write that was acknowledged.
type beat struct {
	sent   time.Duration // since base
	server string        // that this process was connected to
}

const (
	beatLasts = 3 * time.Second // less than the least time after which servers elect another leader
	beatAfter = 100 * time.Millisecond
	keepPulse = time.Minute
)

func newPulse(e *Engine, cluster bool) *pulse {
	return &pulse{engine: e, name: "clock-" + rand.Text(), cluster: cluster, base: time.Now(), writing: make(chan struct{}, 1)}
}

// start returns what is to be given to seen when something is written now and acknowledged later.
func (p *pulse) start() beat {
	if !p.cluster {
		return beat{}
	}
	return beat{time.Since(p.base), p.engine.conn.ConnectedServerId()}
}

// seen notes that what was written since start was acknowledged. That says enough only if something else was, shortly before.
func (p *pulse) seen(b beat) {
	last := p.last.Load()
	if p.cluster && last != nil && last.server == b.server && b.sent-last.sent > beatAfter && b.sent-last.sent < beatLasts {
		p.last.CompareAndSwap(last, &b)
	}
}

// felt reports whether a server that has just answered a read is still the leader.
func (p *pulse) felt() bool {
	if !p.cluster {
		return true
	}
	last := p.last.Load()
	return last != nil && time.Since(p.base)-last.sent < beatLasts && last.server == p.engine.conn.ConnectedServerId()
}

// feel confirms, unless another caller just has, that the server that answers reads leads.
func (p *pulse) feel(ctx context.Context) error {
	if err := p.lock(ctx); err != nil {
		return err
	}
	defer p.unlock()
	if p.felt() {
		return nil
	}
	_, err := p.confirm(ctx)
	return err
}

func (p *pulse) lock(ctx context.Context) error {
	select {
	case p.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pulse) unlock() { <-p.writing }

// look reads the leader's clock.
func (p *pulse) look(ctx context.Context) ([]serverclock.Reading, error) {
	if err := p.lock(ctx); err != nil {
		return nil, err
	}
	defer p.unlock()
	reading, err := p.confirm(ctx)
	if errors.Is(err, jetstream.ErrNoStreamResponse) { // somebody may have deleted the bucket
		if _, err := p.engine.opts.openStream(ctx, p.engine.js); err != nil {
			return nil, err
		}
		reading, err = p.confirm(ctx)
	}
	return []serverclock.Reading{reading}, err
}

// confirm writes the message and reads it back. The time that the server gave to it is a reading of its clock. There is never more
// than one such message of a process, and none a minute after its end.
func (p *pulse) confirm(ctx context.Context) (r serverclock.Reading, err error) {
	before := p.start()
	r.Sent = time.Now()
	ack, err := p.engine.write(ctx, p.engine.message(p.name, nil, keepPulse))
	if err != nil {
		return r, err
	}
	r.Heard = time.Now()
	msg, err := p.engine.read(ctx, p.name)
	if err != nil {
		return r, err
	}
	if msg.Sequence != ack.Sequence {
		return r, fmt.Errorf("message %d was written and %d was read: an old leader answers", ack.Sequence, msg.Sequence)
	}
	r.Shown = msg.Time
	p.last.Store(&before)
	return r, nil
}
