package program_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestGoRedis uses the RESP listener with the most common Go client.
func TestGoRedis(t *testing.T) {
	const token = "0123456789abcdef"
	hour := time.Hour.Microseconds()
	for _, protocol := range []int{2, 3} {
		listeners := serve(t, "--limit", "10/1h sliding-log", "--tokens-file", write(t, "tokens", token+"\n"))
		client := redis.NewClient(&redis.Options{Addr: listeners["resp"], Password: token, Protocol: protocol, ClientName: "web", MaxRetries: -1})
		got, err := client.Do(t.Context(), "SG.ALLOW", "default", "ann", 4).Int64Slice()
		if err != nil || !slices.Equal(got, []int64{1, 10, 6, 0, hour, 4}) {
			t.Errorf("RESP%d: got %v, %v, want 4 of 10 granted", protocol, got, err)
		}
		got, err = client.Do(t.Context(), "CL.THROTTLE", "user123", 15, 30, 60).Int64Slice()
		if err != nil || !slices.Equal(got, []int64{0, 16, 15, -1, 2}) {
			t.Errorf("RESP%d: CL.THROTTLE: got %v, %v, want [0 16 15 -1 2]", protocol, got, err)
		}
		var answers []*redis.Cmd
		if _, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for range 8 {
				answers = append(answers, p.Do(t.Context(), "SG.ALLOW", "default", "ann"))
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		for i, answer := range answers {
			if got, err := answer.Int64Slice(); err != nil || (got[0] == 1) != (i < 6) {
				t.Errorf("RESP%d: reply %d of a pipeline: got %v, %v, want admitted: %t", protocol, i, got, err, i < 6)
			}
		}
		answers = nil
		if _, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error { // a transaction
			for range 3 {
				answers = append(answers, p.Do(t.Context(), "SG.ALLOW", "default", "bob"))
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		for i, answer := range answers {
			if got, err := answer.Int64Slice(); err != nil || got[2] != int64(9-i) {
				t.Errorf("RESP%d: reply %d of a transaction: got %v, %v, want %d left", protocol, i, got, err, 9-i)
			}
		}
		if err := client.Do(t.Context(), "SG.ALLOW", "nobody", "ann").Err(); err == nil || !strings.Contains(err.Error(), "unknown policy") {
			t.Errorf("RESP%d: an unknown policy: %v", protocol, err)
		}
		if _, err := client.Command(t.Context()).Result(); err != nil {
			t.Errorf("RESP%d: COMMAND: %v", protocol, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
