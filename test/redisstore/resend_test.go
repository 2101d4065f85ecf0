package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/porttest"
	"github.com/slidegate/slidegate/test/redistest"
)

// These tests check which requests are sent again: a request may be charged once, never twice.

var hourly = slidegate.Limit{Name: "hourly", Quota: 100, Window: time.Hour, Algorithm: slidegate.SlidingLog}

func TestScriptIsSentOnceWhenItIsNotKnown(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	charge := store.Charge{Limit: bind(t, "resend", hourly), Key: "key", Cost: 1}
	for round := range int64(3) {
		do(t, client, "SCRIPT", "FLUSH")
		do(t, client, "CONFIG", "RESETSTAT")
		for i := range int64(3) {
			if a := apply(t, s, rule.Take, charge); a.Remaining != 100-3*round-i-1 {
				t.Errorf("round %d, request %d: %+v", round, i, a)
			}
		}
		if sha, text := calls(t, client, "evalsha"), calls(t, client, "eval"); sha != 3 || text != 1 {
			t.Errorf("round %d: three requests took %d EVALSHA and %d EVAL, want 3 and 1", round, sha, text)
		}
	}
}

// If the server does not know the script, a batch of several calls is still decided, each request once.
func TestLargeBatchWithoutScript(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	limit := hourly
	limit.Quota = 10_000
	bound := bind(t, "resend", limit)
	const maxKeys = 512 // per call of the script, as in the store
	batch := make([]store.Request, 2*maxKeys+7)
	for i := range batch {
		batch[i] = store.Request{
			Charges: []store.Charge{{Limit: bound, Key: "key", Cost: 1}}, Answers: make([]rule.Answer, 1),
		}
	}
	for round := range int64(2) {
		do(t, client, "SCRIPT", "FLUSH")
		if err := s.Apply(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
		for i := range batch {
			if want := limit.Quota - round*int64(len(batch)) - int64(i) - 1; batch[i].Answers[0].Remaining != want {
				t.Fatalf("round %d, request %d: got %d remaining, want %d", round, i, batch[i].Answers[0].Remaining, want)
			}
		}
	}
}

// An error of the script is returned, without the key, and not tried again.
func TestScriptErrorIsNotRetried(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t, "appendonly no").Client(t)
	s := newStore(t, client, redisstore.Options{})
	for _, limit := range porttest.Kinds() {
		bound := bind(t, "resend", limit)
		charge := store.Charge{Limit: bound, Key: "secret-key", Cost: 1}
		apply(t, s, rule.Peek, charge) // so that the script is known
		do(t, client, "RPUSH", nameOf(bound, charge.Key), "somebody else's")
		do(t, client, "CONFIG", "RESETSTAT")
		_, err := tryApply(context.Background(), s, rule.Take, charge)
		if err == nil || !strings.HasPrefix(err.Error(), "redisstore: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: with a list in its place got error %v", limit.Name, err)
		}
		if sha, text := calls(t, client, "evalsha"), calls(t, client, "eval"); sha != 1 || text != 0 {
			t.Errorf("%s: took %d EVALSHA and %d EVAL, want 1 and 0", limit.Name, sha, text)
		}
	}
}

// A request whose context ends while the server works on it is not sent again; the server may still carry it out.
func TestTimedOutRequestIsNotResent(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly no")
	client, other := server.Client(t), server.Client(t)
	s := newStore(t, client, redisstore.Options{})
	charge := store.Charge{Limit: bind(t, "resend", hourly), Key: "key", Cost: 1}
	apply(t, s, rule.Take, charge)
	do(t, other, "CONFIG", "RESETSTAT")
	do(t, other, "CLIENT", "PAUSE", "60000", "WRITE") // scripts may write, so they wait
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := tryApply(ctx, s, rule.Take, charge); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the server did not answer in time: got error %v", err)
	}
	do(t, other, "CLIENT", "UNPAUSE")
	left := apply(t, s, rule.Peek, charge).Remaining
	sha := calls(t, other, "evalsha") // a client may give up by closing its connection, and the server then drops the request
	if sha < 1 || sha > 2 || left < 98 || left > 99 {
		t.Errorf("the server ran the script %d times, and %d remain, want at most 2 and at least 98: the abandoned request was sent again", sha, left)
	}
}

// A request whose reply is lost is not sent again.
func TestRequestWithLostReplyIsNotResent(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly no")
	wire := faultproxy.New(t, server.Addr())
	client := redistest.Client(t, rueidis.ClientOption{
		InitAddress: []string{wire.Addr()}, DisableCache: true, ForceSingleClient: true,
		PipelineMultiplex: -1, // one connection, which already exists when the wire breaks
	})
	s, direct := newStore(t, client, redisstore.Options{}), server.Client(t)
	for name, lose := range map[string]func(){
		"mute":  func() { wire.Mute(time.Minute) }, // until it is healed, which breaks the connection
		"reset": func() { wire.Reset(50 * time.Millisecond) },
	} {
		carriedOut := int64(0)
		for range 20 { // until one was carried out: now and then the connection breaks before the request is sent
			if carriedOut = loseReply(t, s, direct, wire, lose, name == "mute"); carriedOut > 0 {
				break
			}
		}
		if carriedOut != 1 {
			t.Errorf("%s: a request whose answer was lost was carried out %d times", name, carriedOut)
		}
	}
}

// loseReply sends a request whose reply is lost, and returns how often the server carried it out. With healSoon, the wire is
// healed as soon as the server has carried it out, so that nothing prevents sending it again; otherwise when the store has
// given up.
func loseReply(t *testing.T, s *redisstore.Store, direct rueidis.Client, wire *faultproxy.Proxy, lose func(), healSoon bool) int64 {
	t.Helper()
	charge := store.Charge{Limit: bind(t, "resend", hourly), Key: "key", Cost: 1}
	kit.Eventually(t, "the client to be connected", func() bool {
		_, err := tryApply(context.Background(), s, rule.Reset, charge)
		return err == nil
	})
	do(t, direct, "CONFIG", "RESETSTAT")
	lose()
	given := make(chan error, 1)
	go func() {
		_, err := tryApply(context.Background(), s, rule.Take, charge)
		given <- err
	}()
	kit.Eventually(t, "the request to be carried out or given up", func() bool {
		return len(given) > 0 || healSoon && calls(t, direct, "evalsha") > 0
	})
	wire.Heal()
	if err := <-given; err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "redisstore: ") {
		t.Errorf("the answer was lost: got error %v", err)
	}
	ran := calls(t, direct, "evalsha")
	if a := apply(t, newStore(t, direct, redisstore.Options{}), rule.Peek, charge); a.Remaining != 100-ran {
		t.Errorf("the script ran %d times, and %d of 100 remain", ran, a.Remaining)
	}
	return ran
}

// If the server is gone, requests fail soon, and the store works again when the server does.
func TestStoreRecoversWithTheServer(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly yes", "appendfsync always")
	s := newStore(t, server.Client(t), redisstore.Options{})
	charge := store.Charge{Limit: bind(t, "resend", hourly), Key: "key", Cost: 1}
	apply(t, s, rule.Take, charge)
	server.Kill()
	before := time.Now()
	if _, err := tryApply(context.Background(), s, rule.Take, charge); err == nil || time.Since(before) > 8*time.Second {
		t.Errorf("no server: got after %v the error %v", time.Since(before), err)
	}
	server.Restart()
	var a rule.Answer
	kit.Eventually(t, "the store to work again", func() (ok bool) {
		var err error
		a, err = tryApply(context.Background(), s, rule.Peek, charge)
		return err == nil
	})
	if a.Remaining != 99 {
		t.Errorf("got %d remaining, want 99: only what was taken before the power cut counts", a.Remaining)
	}
}
