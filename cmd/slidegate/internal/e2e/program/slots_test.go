package program_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

const slotTTL = 2 * time.Second

// holderOf is the variable that makes this program a holder of a slot, at the address that it has.
const holderOf = "HOLD_A_SLOT_OF"

// TestHolder is not a test but what the holders of TestSlotsOfTheDead run: it acquires a slot and renews it until it is killed.
func TestHolder(t *testing.T) {
	at := os.Getenv(holderOf)
	if at == "" {
		return
	}
	status, made := post(t.Context(), at, "acquire", nil)
	fmt.Println(status) // so that the test knows that it holds one
	for tick := time.NewTicker(slotTTL / 4); status == http.StatusOK; <-tick.C {
		status, _ = post(t.Context(), at, "renew", made)
	}
}

// post asks the service about a slot, and returns the status, or 0 if there is no answer, and the reservation.
func post(ctx context.Context, at, verb string, made json.RawMessage) (status int, reservation json.RawMessage) {
	ask := map[string]any{"policy": "held"}
	if made == nil {
		ask["key"] = "me"
	} else {
		ask["reservation"] = made
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return 0, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at+"/v1/"+verb, bytes.NewReader(body))
	if err != nil {
		return 0, nil
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil
	}
	defer answer.Body.Close()
	var said struct{ Reservation json.RawMessage }
	text, err := io.ReadAll(answer.Body)
	if err != nil || json.Unmarshal(text, &said) != nil {
		return 0, nil
	}
	return answer.StatusCode, said.Reservation
}

// freeSlots returns how many slots are free.
func freeSlots(t *testing.T, at string) int {
	t.Helper()
	answer, err := http.Post("http://"+at+"/v1/peek", "application/json", bytes.NewReader([]byte(`{"policy":"held","key":"me"}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var said struct{ Remaining int }
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil {
		t.Fatal(err)
	}
	return said.Remaining
}

// TestSlotsOfTheDead: clients that go away at random, before or after they have an answer, and holders that are killed while they
// renew, leave no slot behind that is held after its time to live.
func TestSlotsOfTheDead(t *testing.T) {
	const slots, requests, holders = 50, 1000, 6
	file := write(t, "slots.yaml", fmt.Sprintf("policies:\n  default: {limits: [1/1s]}\n  held: {key: \"{key}\", limits: [%d in-flight ttl=%v]}\n", slots, slotTTL))
	at := serve(t, "--config", file)["http"]
	var alive []*exec.Cmd
	for range holders {
		alive = append(alive, startHolder(t, at))
	}
	if got := freeSlots(t, at); got != slots-holders {
		t.Fatalf("%d slots are free, want %d", got, slots-holders)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var workers sync.WaitGroup
	work := make(chan func())
	for range 8 {
		workers.Go(func() {
			for one := range work {
				one()
			}
		})
	}
	for range requests {
		patience, fate := time.Duration(random.IntN(8_000))*time.Microsecond, random.IntN(4)
		work <- func() { oneRequest(at, patience, fate) }
	}
	close(work)
	workers.Wait()
	for _, one := range alive {
		_ = one.Process.Kill() // with -9, while they renew
		_ = one.Wait()
	}
	died := time.Now()
	testkit.Eventually(t, "all slots are free", func() bool { return freeSlots(t, at) == slots })
	if took := time.Since(died); took > 2*slotTTL {
		t.Errorf("all slots are free %v after the last holder died, want %v", took, slotTTL)
	}
}

// oneRequest acquires a slot and, if it hears the answer in time, releases it, cancels it, renews it, or dies with it.
func oneRequest(at string, patience time.Duration, fate int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	status, made := post(ctx, at, "acquire", nil)
	if status != http.StatusOK {
		return
	}
	if verb := []string{"release", "cancel", "renew", ""}[fate]; verb != "" {
		post(ctx, at, verb, made)
	}
}

// startHolder starts a process that holds a slot.
func startHolder(t *testing.T, at string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestHolder$")
	c.Env = append(os.Environ(), holderOf+"="+at)
	said, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() }) // it may be over
	var status int
	if _, err := fmt.Fscan(said, &status); err != nil || status != http.StatusOK {
		t.Fatalf("the holder says %d, %v; want 200", status, err)
	}
	return c
}
