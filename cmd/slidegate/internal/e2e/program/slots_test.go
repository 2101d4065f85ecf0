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

// holderOf is the environment variable that makes this program hold a slot of the service at the address in it.
const holderOf = "HOLD_A_SLOT_OF"

// TestHolder is not a test: the holders of TestSlotsOfKilledHolders run it. It acquires a slot and renews it until it is killed.
func TestHolder(t *testing.T) {
	at := os.Getenv(holderOf)
	if at == "" {
		return
	}
	status, made := post(t.Context(), at, "acquire", nil)
	fmt.Println(status) // so that the test knows that the slot is held
	for tick := time.NewTicker(slotTTL / 4); status == http.StatusOK; <-tick.C {
		status, _ = post(t.Context(), at, "renew", made)
	}
}

// post sends a request about a slot to the service, and returns the status, or 0 if there is no response, and the reservation.
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
	var response struct{ Reservation json.RawMessage }
	text, err := io.ReadAll(answer.Body)
	if err != nil || json.Unmarshal(text, &response) != nil {
		return 0, nil
	}
	return answer.StatusCode, response.Reservation
}

// freeSlots returns how many slots are free.
func freeSlots(t *testing.T, at string) int {
	t.Helper()
	answer, err := http.Post("http://"+at+"/v1/peek", "application/json", bytes.NewReader([]byte(`{"policy":"held","key":"me"}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var response struct{ Remaining int }
	if err := json.NewDecoder(answer.Body).Decode(&response); err != nil {
		t.Fatal(err)
	}
	return response.Remaining
}

// TestSlotsOfKilledHolders checks that no slot stays held after its time to live, although clients disconnect at random, before or
// after the response, and holders are killed while they renew.
func TestSlotsOfKilledHolders(t *testing.T) {
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
	if took := time.Since(died); took > 4*slotTTL { // this machine may be busy
		t.Errorf("all slots were free %v after the last holder died, want %v", took, slotTTL)
	}
}

// oneRequest acquires a slot and, if the response arrives in time, releases, cancels or renews it, or abandons it.
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
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() }) // it may have ended
	var status int
	if _, err := fmt.Fscan(stdout, &status); err != nil || status != http.StatusOK {
		t.Fatalf("the holder printed %d, %v; want 200", status, err)
	}
	return c
}
