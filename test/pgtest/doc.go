// Package pgtest starts real PostgreSQL servers for tests: one for all tests of a package with a database for each, one of
// a test's own that it may kill, a replica, a small disk that runs full, and PgBouncer in front. Every server runs as an
// unprivileged user on a free port of the loopback interface and in a temporary folder, and ends with the test or, at the
// latest, with its process. Where no server is installed, tests are skipped unless TEST_REQUIRE asks for postgres.
package pgtest
