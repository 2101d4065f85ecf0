package pgstore

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// conn is the store's connection to PostgreSQL. It is safe for concurrent use.
type conn interface {
	// call runs a single statement, and appends the bigint[] that it returns to reply, row by row if that has two dimensions. The
	// parameters are string, int64, []string (a text[]) and []int64 (a bigint[]). The statement is not sent twice, and call keeps
	// no reference to the arguments after it returns.
	call(ctx context.Context, statement string, args []any, reply []int64) ([]int64, error)
	// row runs a statement whose parameters are plain texts, numbers and bytes, and scans the one row that it returns.
	row(ctx context.Context, statement string, args []any, into ...any) error
}

var errReply = errors.New("invalid reply: the functions in the database are of another version; run Migrate")

// pgxConn is a conn over a pgx pool, in any of its modes.
type pgxConn struct{ db DB }

func (c pgxConn) call(ctx context.Context, statement string, args []any, reply []int64) ([]int64, error) {
	rows, err := c.db.Query(ctx, statement, args...)
	if err != nil {
		return reply, err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return reply, err
		}
		return reply, errReply
	}
	var ok bool
	if raw := rows.RawValues()[0]; rows.FieldDescriptions()[0].Format == pgx.BinaryFormatCode {
		reply, ok = readBinary(raw, reply)
	} else {
		reply, ok = readText(raw, reply)
	}
	rows.Close()
	if err := rows.Err(); err != nil { // the answer counts only once it is committed
		return reply, err
	}
	if !ok {
		return reply, errReply
	}
	return reply, nil
}

func (c pgxConn) row(ctx context.Context, statement string, args []any, into ...any) error {
	return c.db.QueryRow(ctx, statement, args...).Scan(into...)
}

// sqlConn is a conn over database/sql. Drivers differ in how they send slices, so arrays are sent and received as text.
type sqlConn struct{ db *sql.DB }

func (c sqlConn) call(ctx context.Context, statement string, args []any, reply []int64) ([]int64, error) {
	plain := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case []string:
			plain[i] = textArray(arg)
		case []int64:
			plain[i] = numberArray(arg)
		default:
			plain[i] = arg
		}
	}
	var text []byte
	err := c.db.QueryRowContext(ctx, statement, plain...).Scan(&text)
	if err != nil {
		return reply, err
	}
	reply, ok := readText(text, reply)
	if !ok {
		return reply, errReply
	}
	return reply, nil
}

func (c sqlConn) row(ctx context.Context, statement string, args []any, into ...any) error {
	return c.db.QueryRowContext(ctx, statement, args...).Scan(into...)
}

// textArray writes addresses as a PostgreSQL array. They contain neither quotes nor backslashes: appendAddress escapes
// those.
func textArray(addresses []string) string {
	text := []byte{'{'}
	for i, a := range addresses {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, '"')
		text = append(text, a...)
		text = append(text, '"')
	}
	return string(append(text, '}'))
}

func numberArray(numbers []int64) string {
	text := []byte{'{'}
	for i, n := range numbers {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, n, 10)
	}
	return string(append(text, '}'))
}

// readText parses PostgreSQL's text format of an array of numbers, such as {1,2} or {{1,2},{3,4}}.
func readText(text []byte, to []int64) (numbers []int64, ok bool) {
	if len(text) < 2 || text[0] != '{' || text[len(text)-1] != '}' {
		return to, false
	}
	from := 0
	for i, c := range text {
		if c != '{' && c != '}' && c != ',' {
			continue
		}
		if i > from {
			n, err := strconv.ParseInt(string(text[from:i]), 10, 64)
			if err != nil {
				return to, false
			}
			to = append(to, n)
		}
		from = i + 1
	}
	return to, true
}

// readBinary parses PostgreSQL's binary format of an array of numbers: the number of dimensions, whether there are
// nulls, the type, the length and the lower bound of every dimension, and before each number its length of 8.
func readBinary(raw []byte, to []int64) (numbers []int64, ok bool) {
	const element, bigint = 12, 20
	if len(raw) < 12 || binary.BigEndian.Uint32(raw[8:]) != bigint {
		return to, false
	}
	dimensions := binary.BigEndian.Uint32(raw)
	if dimensions == 0 {
		return to, len(raw) == 12
	}
	if raw = raw[12:]; dimensions > 2 || len(raw) < 8*int(dimensions) {
		return to, false
	}
	count := uint64(1)
	for ; dimensions > 0; dimensions-- {
		count *= uint64(binary.BigEndian.Uint32(raw))
		raw = raw[8:]
	}
	if count != uint64(len(raw))/element || len(raw)%element != 0 {
		return to, false
	}
	for ; len(raw) > 0; raw = raw[element:] {
		if binary.BigEndian.Uint32(raw) != 8 {
			return to, false
		}
		to = append(to, int64(binary.BigEndian.Uint64(raw[4:])))
	}
	return to, true
}
