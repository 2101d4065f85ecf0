package stores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"
)

// keepKeyInRedis keeps a key under a name that no limit can have: names of limits end in a brace, or in what follows one.
func keepKeyInRedis(client rueidis.Client, prefix string) func(context.Context, []byte) ([]byte, error) {
	name := prefix + ":reservation-key"
	return func(ctx context.Context, proposed []byte) ([]byte, error) {
		set := client.B().Set().Key(name).Value(rueidis.BinaryString(proposed)).Nx().Build()
		if err := client.Do(ctx, set).Error(); err != nil && !rueidis.IsRedisNil(err) { // nil: there already is one
			return nil, failed("redis", keyCommandError("SET", err))
		}
		kept, err := client.Do(ctx, client.B().Get().Key(name).Build()).AsBytes()
		if err != nil {
			return nil, failed("redis", keyCommandError("GET", err))
		}
		return kept, nil
	}
}

// keyCommandError returns an error with only the first word of the reply of Redis. The whole reply may repeat the arguments
// of the command, one of which is the key.
func keyCommandError(command string, err error) error {
	reply, ok := rueidis.IsRedisErr(err)
	if !ok {
		return err
	}
	word, _, _ := strings.Cut(reply.Error(), " ")
	if strings.ToUpper(word) != word {
		word = "ERR" // rueidis omits the usual one
	}
	return fmt.Errorf("the key that signs reservations: Redis rejects %s (%s); allow it, or set --reservation-key-file", command, word)
}

// undefinedTable is PostgreSQL's code for a missing table.
const undefinedTable = "42P01"

// keepKeyIn keeps a key in a separate table with one row. The table is created when the first key is kept, unless the URL forbids
// creating tables.
func (t *postgresTarget) keepKeyIn(pool *pgxpool.Pool) func(context.Context, []byte) ([]byte, error) {
	table := pgx.Identifier{cmp.Or(t.store.Schema, "public"), cmp.Or(t.store.Prefix, "slidegate_") + "reservation_key"}.Sanitize()
	read := func(ctx context.Context) (kept []byte, err error) {
		err = pool.QueryRow(ctx, "SELECT key FROM "+table).Scan(&kept)
		return kept, err
	}
	return func(ctx context.Context, proposed []byte) ([]byte, error) {
		kept, err := read(ctx)
		if missing, ok := errors.AsType[*pgconn.PgError](err); ok && missing.Code == undefinedTable && t.migrate {
			// Two concurrent attempts may conflict, but the table exists afterwards.
			_, _ = pool.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+table+" (one boolean PRIMARY KEY DEFAULT true CHECK (one), key bytea NOT NULL)")
			err = pgx.ErrNoRows
		}
		if errors.Is(err, pgx.ErrNoRows) {
			if _, err = pool.Exec(ctx, "INSERT INTO "+table+" (key) VALUES ($1) ON CONFLICT DO NOTHING", proposed); err == nil {
				kept, err = read(ctx)
			}
		}
		if err != nil {
			return nil, failed("postgres", err)
		}
		return kept, nil
	}
}
