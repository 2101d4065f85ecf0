// Package crash_test runs what other tests demand of a store over a process that is killed again and again.
package crash_test

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/porttest"
)

// child is the variable that makes this program the process that is killed: its value is the folder.
const child = "SLIDEGATE_TEST_CRASHED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(child); dir != "" {
		if err := serve(dir, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// call is a batch of requests at one time, and result what was answered.
type call struct {
	Now      rule.Micros
	Requests []request
}

type request struct {
	Op         rule.Op
	Group      string
	ID         rule.ID
	Hold, Once bool
	Charges    []charge
}

type charge struct {
	Namespace, Name, Key string
	Rule                 rule.Limit
	Cost, Used           int64
	At                   rule.Micros
}

type result struct {
	Answers [][]rule.Answer
	Err     string
}

// serve decides what it reads over a store in a folder, until it is killed.
func serve(dir string, in io.Reader, out io.Writer) error {
	var now rule.Micros
	st, err := memstore.Open(dir, memstore.Options{Now: func() rule.Micros { return now }})
	if err != nil {
		return err
	}
	limits := map[string]*store.Limit{}
	from, to := gob.NewDecoder(in), gob.NewEncoder(out)
	for {
		var c call
		if err := from.Decode(&c); err != nil {
			return err
		}
		now = c.Now
		batch, r := make([]store.Request, len(c.Requests)), result{}
		for i, q := range c.Requests {
			b := &batch[i]
			*b = store.Request{Op: q.Op, Group: q.Group, ID: q.ID, Hold: q.Hold, Once: q.Once, Answers: make([]rule.Answer, len(q.Charges))}
			for _, g := range q.Charges {
				name := fmt.Sprintf("%q %q %+v", g.Namespace, g.Name, g.Rule)
				if limits[name] == nil {
					limits[name] = store.Bind(g.Namespace, g.Name, "", g.Rule)
				}
				b.Charges = append(b.Charges, store.Charge{Limit: limits[name], Key: g.Key, Cost: g.Cost, Used: g.Used, At: g.At})
			}
			r.Answers = append(r.Answers, b.Answers)
		}
		if err := st.Apply(context.Background(), batch); err != nil {
			r.Err = err.Error()
		}
		if err := to.Encode(r); err != nil {
			return err
		}
	}
}

// killed is a store in a process that is killed after every so many calls. Another one continues from its folder.
type killed struct {
	t     testing.TB
	now   func() rule.Micros
	dir   string
	every int

	mu    sync.Mutex
	calls int
	kills int
	cmd   *exec.Cmd
	to    *gob.Encoder
	from  *gob.Decoder
}

func open(every int) porttest.Open {
	return func(t testing.TB, now func() rule.Micros) store.Store {
		k := &killed{t: t, now: now, dir: filepath.Join(t.TempDir(), "state"), every: every}
		t.Cleanup(func() {
			k.kill()
			t.Logf("%d calls, %d kills", k.calls, k.kills)
		})
		return k
	}
}

func (k *killed) Traits() store.Traits     { return store.Traits{Name: "memory", MaxCharges: 64} }
func (k *killed) Check(*store.Limit) error { return nil }

func (k *killed) Apply(_ context.Context, batch []store.Request) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.calls++; k.cmd == nil {
		k.start()
	}
	c := call{Now: k.now()}
	for _, b := range batch {
		q := request{Op: b.Op, Group: b.Group, ID: b.ID, Hold: b.Hold, Once: b.Once}
		for _, g := range b.Charges {
			q.Charges = append(q.Charges, charge{
				Namespace: g.Limit.Namespace(), Name: g.Limit.Name(), Key: g.Key, Rule: *g.Limit.Rule(), Cost: g.Cost, Used: g.Used, At: g.At,
			})
		}
		c.Requests = append(c.Requests, q)
	}
	var r result
	if err := errors.Join(k.to.Encode(c), k.from.Decode(&r)); err != nil {
		k.t.Fatalf("the process ended: %v", err)
	}
	for i := range batch {
		copy(batch[i].Answers, r.Answers[i])
	}
	if k.calls%k.every == 0 {
		k.kill()
	}
	if r.Err != "" {
		return errors.New(r.Err)
	}
	return nil
}

func (k *killed) start() {
	k.cmd = exec.Command(os.Args[0])
	k.cmd.Env, k.cmd.Stderr = append(os.Environ(), child+"="+k.dir), os.Stderr
	kit.KillWithParent(k.cmd)
	in, out := kit.Must(k.cmd.StdinPipe())(k.t), kit.Must(k.cmd.StdoutPipe())(k.t)
	if err := k.cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.to, k.from = gob.NewEncoder(in), gob.NewDecoder(out)
}

func (k *killed) kill() {
	if k.cmd == nil {
		return
	}
	k.kills++
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait() // the error says that it was killed
	k.cmd = nil
}

// Every recorded decision of the limiters that Slidegate replaces is the same, although the process is killed again and again.
func TestTraces(t *testing.T) { porttest.Traces(t, open(100)) }

// So is every decision of random requests.
func TestSameAsRule(t *testing.T) { porttest.SameAsRule(t, open(20), porttest.Options{}) }
