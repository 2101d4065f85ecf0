package workers

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
)

// TestWorker is the main function of the other processes: it multiplies, and returns its process ID.
func TestWorker(t *testing.T) {
	Serve(t, func(job string) (func([]byte) (any, error), error) {
		var factor int
		_, err := fmt.Sscanf(job, "times %d", &factor)
		return func(order []byte) (any, error) {
			var n int
			err := json.Unmarshal(order, &n)
			return []int{factor * n, os.Getpid()}, err
		}, err
	})
}

// Each worker is a separate process, and answers its own orders in turn.
func TestWorkersAnswer(t *testing.T) {
	t.Parallel()
	all := Start(t, 3, "times 7")
	ids := []int{os.Getpid()}
	for round := range 2 {
		for i, w := range all {
			w.Send(t, 10*round+i)
		}
		for i, answer := range ReceiveAll[[]int](t, all) {
			if want := 7 * (10*round + i); answer[0] != want {
				t.Errorf("round %d: worker %d answered %d, want %d", round, i, answer[0], want)
			}
			if id := answer[1]; round == 0 && slices.Contains(ids, id) {
				t.Errorf("worker %d is not its own process", i)
			} else {
				ids = append(ids, id)
			}
		}
	}
}
