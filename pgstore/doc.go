// Package pgstore keeps state in PostgreSQL 13 or later, at a URL or over a pool that the caller already has. One call of
// one function decides every batch of requests at the data, by the server's clock and the same rule as in every store, in
// one round trip; a refusal writes nothing, takes no lock and waits for no disk.
//
//	st, err := pgstore.Open(ctx, "postgres://user:password@localhost/limits")
//	limiter, err := slidegate.New(st, slidegate.PerMinute(100))
//	defer st.Close()
//
// Over a pool of the caller, Migrate creates the table and the functions:
//
//	err := pgstore.Migrate(ctx, pool, pgstore.Options{})
//	store, err := pgstore.New(pool, pgstore.Options{})
//	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
//	go store.Sweep(ctx, time.Minute, nil) // deletes rows that no longer matter
//
// See docs/postgres.md for how to choose what a crash may lose, which privileges a role needs, and what to know about
// PgBouncer.
package pgstore
