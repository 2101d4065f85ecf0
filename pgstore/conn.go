package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
)

var errReply = errors.New("invalid reply: the functions in the database are of another version; run Migrate")

// call runs a single statement, and appends the bigint[] that it returns to reply, row by row if that has two dimensions. The
// parameters are string, int64, []string (a text[]) and []int64 (a bigint[]). The statement is not sent twice, and call keeps no
// reference to the arguments after it returns. It works in every mode of pgx.
func call(ctx context.Context, db DB, statement string, args []any, reply []int64) ([]int64, error) {
	rows, err := db.Query(ctx, statement, args...)
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
