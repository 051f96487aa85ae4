-- Leases that ran out, counted by the pop that takes the partition over. A sequence and no row: pops of all brokers
-- count at once, and none waits for another.
CREATE SEQUENCE queen.expired_leases;
