package redisstore

import "context"

// runInOrder runs calls of which several may have a key in common. Those are sent one at a time: if two were sent
// together, the first could be carried out last, when the server does not know the script at first, or when a node of a
// cluster redirects the client.
func (t *roundTrip) runInOrder(ctx context.Context, conn Conn) {
	turn := make(map[string]int) // by name of a key, the turn of its last call, counted from 1
	turns := make([]int, len(t.calls))
	last := 0
	for i := range t.calls {
		for _, name := range t.calls[i].Keys {
			turns[i] = max(turns[i], turn[name])
		}
		turns[i]++
		for _, name := range t.calls[i].Keys {
			turn[name] = turns[i]
		}
		last = max(last, turns[i])
	}
	if last == 1 {
		conn.Run(ctx, &script, t.calls)
		return
	}
	for now := 1; now <= last; now++ {
		t.runTurn(ctx, conn, turns, now)
	}
}

// runTurn runs the calls of a turn. If ctx has ended, nothing is sent.
func (t *roundTrip) runTurn(ctx context.Context, conn Conn, turns []int, now int) {
	var calls []Call
	for i := range t.calls {
		if turns[i] == now {
			calls = append(calls, t.calls[i])
		}
	}
	if err := ctx.Err(); err != nil {
		for i := range calls {
			calls[i].Err = err
		}
	} else {
		conn.Run(ctx, &script, calls)
	}
	for i, next := 0, 0; i < len(t.calls); i++ {
		if turns[i] == now {
			t.calls[i] = calls[next]
			next++
		}
	}
}
