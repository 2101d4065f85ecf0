// Package pgstore keeps state in PostgreSQL 13 or later, over a pool that the caller already has. Every batch of requests is
// decided by one call of one function at the data, by the server's clock and the same rule as in every store, in one round
// trip; what is refused writes nothing, takes no lock and waits for no disk. Migrate creates the table and the functions.
//
//	err := pgstore.Migrate(ctx, pool, pgstore.Options{})
//	store, err := pgstore.New(pool, pgstore.Options{})
//	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
//	go store.Sweep(ctx, time.Minute, nil) // forgets what does not matter any more
//
// docs/postgres.md says how to choose what a crash may forget, which rights a role needs, and what to know of PgBouncer.
package pgstore
