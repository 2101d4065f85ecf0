package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Helpers for tests with one server, which inspect it with Redis commands.

// do sends a command that must succeed.
func do(t testing.TB, client rueidis.Client, command ...string) rueidis.RedisResult {
	t.Helper()
	result := client.Do(context.Background(), client.B().Arbitrary(command...).Build())
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%s failed: %v", command[0], err)
	}
	return result
}

func number(t testing.TB, client rueidis.Client, command ...string) int64 {
	t.Helper()
	result := do(t, client, command...)
	n, err := result.AsInt64()
	if err != nil {
		t.Fatalf("the answer to %s is not a number: %v", command[0], err)
	}
	return n
}

func text(t testing.TB, client rueidis.Client, command ...string) string {
	t.Helper()
	result := do(t, client, command...)
	s, err := result.ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("the answer to %s is not text: %v", command[0], err)
	}
	return s
}

// calls returns how often the server has run a command.
func calls(t testing.TB, client rueidis.Client, command string) int64 {
	t.Helper()
	_, rest, found := strings.Cut(text(t, client, "INFO", "commandstats"), "cmdstat_"+command+":calls=")
	if !found {
		return 0
	}
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// changes returns how many changes of data the server has counted.
func changes(t testing.TB, client rueidis.Client) int64 {
	t.Helper()
	_, rest, _ := strings.Cut(text(t, client, "INFO", "persistence"), "rdb_changes_since_last_save:")
	digits, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// serverTime returns the server's time in microseconds.
func serverTime(t testing.TB, client rueidis.Client) rule.Micros {
	t.Helper()
	result := do(t, client, "TIME")
	parts, err := result.AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	seconds, _ := strconv.ParseInt(parts[0], 10, 64)
	micros, _ := strconv.ParseInt(parts[1], 10, 64)
	return rule.Micros(seconds)*1_000_000 + rule.Micros(micros)
}

// apply sends one request with one charge.
func apply(t testing.TB, s *redisstore.Store, op rule.Op, charge store.Charge) rule.Answer {
	t.Helper()
	answer, err := tryApply(context.Background(), s, op, charge)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// tryApply is apply for requests that may fail. It waits for ten seconds at most, far longer than anything here takes.
func tryApply(ctx context.Context, s *redisstore.Store, op rule.Op, charge store.Charge) (rule.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var answers [1]rule.Answer
	id := rule.ID(rand.Uint64()) // of the slot, if it takes one
	err := s.Apply(ctx, []store.Request{{Op: op, ID: id, Charges: []store.Charge{charge}, Answers: answers[:]}})
	return answers[0], err
}

// nameOf returns the name of the key for a charge's state, for texts in which at most the colons of the key have to be
// escaped.
func nameOf(limit *store.Limit, key string) string {
	key = strings.ReplaceAll(key, ":", "%3A")
	return fmt.Sprintf("slidegate:%s:%s:%s:{%s}", limit.Namespace(), limit.Name(), shape.Name(limit.Rule()), key)
}
