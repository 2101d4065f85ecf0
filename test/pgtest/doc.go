// Package pgtest starts real PostgreSQL servers for tests: one for all tests of a package with a database for each, one
// for a single test that may kill it, a replica, a small disk that becomes full, and PgBouncer in front. Every server
// runs as an unprivileged user on a free port of the loopback interface and in a temporary directory, and ends with the
// test or, at the latest, with its process. Where no server is installed, tests are skipped unless TEST_REQUIRE names
// postgres.
package pgtest
