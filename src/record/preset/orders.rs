//! `orders`: a small shop. Row n of a table is a function of (seed, table, n), so that the streams of one shop agree
//! without knowing of each other: what a key refers to is there, and totals are the sums of their lines.

use super::super::Facts;
use super::super::format::{Format, MakeError};
use super::super::hash::{Random, below, mix};
use super::super::settings::{OrdersTable, PresetValueSettings};
use super::super::text::{NUMBER_BYTES, facts_fields, number, words};
use super::popular::Popular;

const CUSTOMERS: u64 = 10_000;
const PRODUCTS: u64 = 1000;
/// Lines of four orders one after the other, and how many come before each of them.
const LINES: [(u64, u64); 4] = [(0, 1), (1, 3), (4, 2), (6, 4)];
const LINES_OF_FOUR: u64 = 10;
const MOST_LINES: u64 = 4;
/// An order is written this often, each time with a later status.
const STATUSES: u64 = 4;
/// Orders that are written between two statuses of one.
const BETWEEN_STATUSES: u64 = 1000;
/// One of so many orders is cancelled.
const CANCELLED_OF: u64 = 20;

const FIRST_NAMES: [&str; 8] = ["Ada", "Alan", "Edsger", "Grace", "John", "Katherine", "Leslie", "Barbara"];
const LAST_NAMES: [&str; 8] =
    ["Lovelace", "Turing", "Dijkstra", "Hopper", "McCarthy", "Johnson", "Lamport", "Liskov"];
const CITIES: [&str; 6] = ["Berlin", "Lyon", "Porto", "Gdansk", "Turin", "Ghent"];
const CATEGORIES: [&str; 6] = ["books", "garden", "kitchen", "music", "sports", "tools"];

/// Rows of one table of a shop.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    seed: u64,
    table: OrdersTable,
    customers: u64,
    products: Popular,
}

/// What a line of an order is.
#[derive(Debug, Clone, Copy)]
struct Line {
    product: u64,
    quantity: u64,
    price_cents: u64,
}

impl Orders {
    pub(super) fn new(seed: u64, table: OrdersTable, settings: &PresetValueSettings) -> Self {
        let customers = settings.cardinality.unwrap_or(CUSTOMERS).max(1);
        Self { seed, table, customers, products: Popular::new(PRODUCTS) }
    }

    fn random(&self, table: OrdersTable, row: u64) -> Random {
        Random::of(mix(self.seed ^ mix(table as u64 + 1)), row)
    }

    fn price_cents(&self, product: u64) -> u64 {
        99 + below(self.random(OrdersTable::Products, product).next(), 20_000)
    }

    fn line(&self, order: u64, line: u64) -> Line {
        let mut random = self.random(OrdersTable::OrderLines, order * MOST_LINES + line);
        let product = self.products.rank(random.next());
        Line { product, quantity: 1 + below(random.next(), 5), price_cents: self.price_cents(product) }
    }

    fn lines(order: u64) -> u64 {
        LINES.get((order % 4) as usize).map_or(1, |(_, lines)| *lines)
    }

    /// The row's number in its table: its primary key.
    fn id(&self, sequence: u64) -> u64 {
        match self.table {
            OrdersTable::Customers => sequence % self.customers,
            OrdersTable::Products => sequence % PRODUCTS,
            OrdersTable::Orders => order_of(sequence).0,
            OrdersTable::OrderLines => sequence,
        }
    }

    fn customer(&self, id: u64, facts: &Facts, out: &mut Vec<u8>) {
        let mut random = self.random(OrdersTable::Customers, id);
        field(out, "{\"customer_id\":", id);
        let (first, last) = (one_of(&FIRST_NAMES, random.next()), one_of(&LAST_NAMES, random.next()));
        text(out, &[",\"name\":\"", first, " ", last, "\",\"email\":\"", first, ".", last]);
        number(id, out);
        text(out, &["@example.com\",\"city\":\"", one_of(&CITIES, random.next())]);
        // What changes from round to round.
        let round = facts.sequence / self.customers;
        field(out, "\",\"credit_limit\":", 100 * below(mix(random.next() ^ mix(round)), 100));
        field(out, ",\"version\":", round);
    }

    fn product(&self, id: u64, facts: &Facts, out: &mut Vec<u8>) {
        let mut random = self.random(OrdersTable::Products, id);
        // The first one is the price.
        random.next();
        field(out, "{\"product_id\":", id);
        text(out, &[",\"name\":\""]);
        words(2, &mut random, out);
        text(out, &["\",\"category\":\"", one_of(&CATEGORIES, random.next())]);
        field(out, "\",\"price_cents\":", self.price_cents(id));
        let round = facts.sequence / PRODUCTS;
        field(out, ",\"stock\":", below(mix(random.next() ^ mix(round)), 1000));
        field(out, ",\"version\":", round);
    }

    fn order(&self, id: u64, facts: &Facts, out: &mut Vec<u8>) {
        let mut random = self.random(OrdersTable::Orders, id);
        let customer = below(random.next(), self.customers);
        let cancelled = below(random.next(), CANCELLED_OF) == 0;
        // A marker's order has no lines: none refers to it.
        let (step, lines) = if facts.marker { (0, 0) } else { (order_of(facts.sequence).1, Self::lines(id)) };
        let status = match (step, cancelled) {
            (0, _) => "new",
            (1, _) => "paid",
            (_, true) => "cancelled",
            (2, false) => "shipped",
            (_, false) => "delivered",
        };
        let amount = |line| {
            let Line { quantity, price_cents, .. } = self.line(id, line);
            quantity * price_cents
        };
        field(out, "{\"order_id\":", id);
        field(out, ",\"customer_id\":", customer);
        text(out, &[",\"status\":\"", status]);
        field(out, "\",\"lines\":", lines);
        field(out, ",\"total_cents\":", (0..lines).map(amount).sum());
        text(out, &[",\"currency\":\"EUR\""]);
    }

    fn order_line(&self, id: u64, facts: &Facts, out: &mut Vec<u8>) {
        let (order, line) = line_of(id);
        let mut found = self.line(order, line);
        field(out, "{\"order_line_id\":", id);
        if facts.marker {
            // It belongs to an order that is there, and changes nothing about it.
            found.quantity = 0;
        }
        field(out, ",\"order_id\":", if facts.marker { 0 } else { order });
        field(out, ",\"line\":", if facts.marker { 0 } else { line + 1 });
        field(out, ",\"product_id\":", found.product);
        field(out, ",\"quantity\":", found.quantity);
        field(out, ",\"price_cents\":", found.price_cents);
        field(out, ",\"amount_cents\":", found.quantity * found.price_cents);
    }
}

/// The order of a record and which of its statuses it has. Of four records one begins a new order, and the others move
/// older ones on; as long as there are no older ones, the newest is written again as it is.
const fn order_of(sequence: u64) -> (u64, u64) {
    let (newest, step) = (sequence / STATUSES, sequence % STATUSES);
    match newest.checked_sub(step * BETWEEN_STATUSES) {
        Some(order) => (order, step),
        None => (newest, 0),
    }
}

/// The order of a line, and its number in the order from 0.
fn line_of(id: u64) -> (u64, u64) {
    let (four, at) = (id / LINES_OF_FOUR, id % LINES_OF_FOUR);
    let mut found = (four * 4, 0);
    for (index, (before, _)) in (0..).zip(LINES) {
        if at >= before {
            found = (four * 4 + index, at - before);
        }
    }
    found
}

fn text(out: &mut Vec<u8>, texts: &[&str]) {
    texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
}

fn field(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(name.as_bytes());
    number(value, out);
}

fn one_of(texts: &[&'static str], random: u64) -> &'static str {
    texts.get(below(random, texts.len() as u64) as usize).copied().unwrap_or_default()
}

impl Format for Orders {
    fn write(&mut self, facts: &Facts, value: &mut Vec<u8>) -> Result<(), MakeError> {
        let id = if facts.marker { facts.key_id } else { self.id(facts.sequence) };
        match self.table {
            OrdersTable::Customers => self.customer(id, facts, value),
            OrdersTable::Products => self.product(id, facts, value),
            OrdersTable::Orders => self.order(id, facts, value),
            OrdersTable::OrderLines => self.order_line(id, facts, value),
        }
        facts_fields(facts, value);
        value.push(b'}');
        Ok(())
    }

    fn max_bytes(&self) -> usize {
        // Names, fixed texts and the longest of each list, with every number at its longest.
        let (fixed, numbers) = match self.table {
            OrdersTable::Customers => (150, 4),
            OrdersTable::Products => (110, 5),
            OrdersTable::Orders => (110, 4),
            OrdersTable::OrderLines => (110, 7),
        };
        fixed + NUMBER_BYTES * (numbers + 3) + 45
    }

    fn key(&mut self, sequence: u64, key: &mut Vec<u8>) -> Option<u64> {
        let id = self.id(sequence);
        number(id, key);
        Some(id)
    }

    fn max_key_bytes(&self) -> usize {
        NUMBER_BYTES
    }

    fn for_lane(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }
}
