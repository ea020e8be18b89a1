//! Tables of the catalog that the library leaves out, or fills differently from PostgreSQL.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, TableAlias, TableFactor};

use super::syntax::query;

/// The columns of tables, with types by PostgreSQL's names.
const COLUMNS: &str = "SELECT table_catalog, table_schema, table_name, column_name, ordinal_position + 1 AS \
    ordinal_position, CAST(NULL AS TEXT) AS column_default, is_nullable, \
    CASE WHEN data_type IN ('Utf8', 'Utf8View', 'LargeUtf8') THEN 'text' WHEN data_type = 'Boolean' THEN \
     'boolean' \
    WHEN data_type IN ('Int8', 'Int16', 'UInt8') THEN 'smallint' WHEN data_type IN ('Int32', 'UInt16') \
     THEN 'integer' \
    WHEN data_type IN ('Int64', 'UInt32') THEN 'bigint' WHEN data_type = 'Float32' THEN 'real' \
    WHEN data_type = 'Float64' THEN 'double precision' \
    WHEN data_type LIKE 'Decimal%' OR data_type = 'UInt64' THEN 'numeric' WHEN data_type LIKE 'Date%' \
     THEN 'date' \
    WHEN data_type LIKE 'Timestamp%+00%' OR data_type LIKE 'Timestamp%\"%' THEN 'timestamp with time zone' \
    WHEN data_type LIKE 'Timestamp%' THEN 'timestamp without time zone' \
    WHEN data_type LIKE 'Time%' THEN 'time without time zone' WHEN data_type LIKE 'Interval%' THEN \
     'interval' \
    WHEN data_type IN ('Binary', 'BinaryView', 'LargeBinary') THEN 'bytea' \
    WHEN data_type LIKE '%List%' THEN 'ARRAY' ELSE data_type END AS data_type, \
    CAST(NULL AS INT) AS character_maximum_length, CAST(NULL AS INT) AS character_octet_length, \
    CASE WHEN data_type IN ('Int8', 'Int16', 'UInt8') THEN 16 WHEN data_type IN ('Int32', 'UInt16') THEN 32 \
    WHEN data_type IN ('Int64', 'UInt32') THEN 64 WHEN data_type = 'Float32' THEN 24 \
    WHEN data_type = 'Float64' THEN 53 \
    WHEN data_type LIKE 'Decimal%' THEN CAST(numeric_precision AS BIGINT) END AS numeric_precision, \
    CASE WHEN data_type LIKE 'Int%' OR data_type LIKE 'UInt%' OR data_type LIKE 'Float%' THEN 2 \
    WHEN data_type LIKE 'Decimal%' THEN 10 END AS numeric_precision_radix, \
    CASE WHEN data_type LIKE 'Int%' THEN 0 WHEN data_type LIKE 'Decimal%' THEN CAST(numeric_scale AS \
     BIGINT) END \
    AS numeric_scale, CASE WHEN data_type LIKE 'Timestamp%' THEN 6 WHEN data_type LIKE 'Date%' THEN 0 END \
    AS datetime_precision, CAST(NULL AS TEXT) AS interval_type, CAST(NULL AS TEXT) AS character_set_name, \
    CAST(NULL AS TEXT) AS collation_name, CAST(NULL AS TEXT) AS domain_schema, CAST(NULL AS TEXT) AS \
     domain_name, \
    table_catalog AS udt_catalog, 'pg_catalog' AS udt_schema, \
    CASE WHEN data_type IN ('Utf8', 'Utf8View', 'LargeUtf8') THEN 'text' WHEN data_type = 'Boolean' THEN \
     'bool' \
    WHEN data_type IN ('Int8', 'Int16', 'UInt8') THEN 'int2' WHEN data_type IN ('Int32', 'UInt16') THEN \
     'int4' \
    WHEN data_type IN ('Int64', 'UInt32') THEN 'int8' WHEN data_type = 'Float32' THEN 'float4' \
    WHEN data_type = 'Float64' THEN 'float8' \
    WHEN data_type LIKE 'Decimal%' OR data_type = 'UInt64' THEN 'numeric' WHEN data_type LIKE 'Date%' \
     THEN 'date' \
    WHEN data_type LIKE 'Timestamp%+00%' OR data_type LIKE 'Timestamp%\"%' THEN 'timestamptz' \
    WHEN data_type LIKE 'Timestamp%' THEN 'timestamp' WHEN data_type LIKE 'Time%' THEN 'time' \
    WHEN data_type LIKE 'Interval%' THEN 'interval' \
    WHEN data_type IN ('Binary', 'BinaryView', 'LargeBinary') THEN 'bytea' ELSE data_type END AS udt_name, \
    CAST(ordinal_position + 1 AS TEXT) AS dtd_identifier, 'NO' AS is_self_referencing, 'NO' AS is_identity, \
    CAST(NULL AS TEXT) AS identity_generation, 'NEVER' AS is_generated, \
    CAST(NULL AS TEXT) AS generation_expression, 'NO' AS is_updatable FROM information_schema.columns";

/// The columns of privileges of tables.
const GRANTS: &[&str] = &[
    "grantor",
    "grantee",
    "table_catalog",
    "table_schema",
    "table_name",
    "privilege_type",
    "is_grantable",
    "with_hierarchy",
];

/// Tables that are there and have no rows, with their columns.
const EMPTY: [(&str, &[&str]); 13] = [
    (
        "table_constraints",
        &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "constraint_type",
            "is_deferrable",
            "initially_deferred",
            "enforced",
            "nulls_distinct",
        ],
    ),
    (
        "referential_constraints",
        &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "unique_constraint_catalog",
            "unique_constraint_schema",
            "unique_constraint_name",
            "match_option",
            "update_rule",
            "delete_rule",
        ],
    ),
    (
        "key_column_usage",
        &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "ordinal_position",
            "position_in_unique_constraint",
        ],
    ),
    (
        "constraint_column_usage",
        &[
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
        ],
    ),
    (
        "constraint_table_usage",
        &[
            "table_catalog",
            "table_schema",
            "table_name",
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
        ],
    ),
    ("check_constraints", &["constraint_catalog", "constraint_schema", "constraint_name", "check_clause"]),
    (
        "triggers",
        &[
            "trigger_catalog",
            "trigger_schema",
            "trigger_name",
            "event_manipulation",
            "event_object_catalog",
            "event_object_schema",
            "event_object_table",
            "action_order",
            "action_condition",
            "action_statement",
            "action_orientation",
            "action_timing",
        ],
    ),
    (
        "sequences",
        &[
            "sequence_catalog",
            "sequence_schema",
            "sequence_name",
            "data_type",
            "start_value",
            "minimum_value",
            "maximum_value",
            "increment",
            "cycle_option",
        ],
    ),
    (
        "element_types",
        &[
            "object_catalog",
            "object_schema",
            "object_name",
            "object_type",
            "collection_type_identifier",
            "data_type",
            "udt_catalog",
            "udt_schema",
            "udt_name",
        ],
    ),
    ("domains", &["domain_catalog", "domain_schema", "domain_name", "data_type"]),
    (
        "column_privileges",
        &[
            "grantor",
            "grantee",
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "privilege_type",
            "is_grantable",
        ],
    ),
    ("table_privileges", GRANTS),
    ("role_table_grants", GRANTS),
];

/// Puts a query in the place of such a table.
pub(super) fn mend(table: &mut TableFactor) {
    let TableFactor::Table { name, alias, args: None, .. } = table else { return };
    if let [only] = name.0.as_slice()
        && only.as_ident().is_some_and(|ident| ident.value.eq_ignore_ascii_case("pg_stat_activity"))
    {
        *name = ObjectName::from(vec![Ident::new("pg_catalog"), Ident::new("pg_stat_activity")]);
        return;
    }
    let Some(name) = of_schema(name) else { return };
    let sql = match EMPTY.iter().find(|(empty, _)| *empty == name) {
        Some((_, columns)) => {
            let columns: Vec<_> =
                columns.iter().map(|column| format!("CAST(NULL AS TEXT) AS {column}")).collect();
            format!("SELECT {} WHERE false", columns.join(", "))
        }
        None if name == "columns" => COLUMNS.to_owned(),
        None => return,
    };
    let plain =
        || TableAlias { explicit: true, name: Ident::new(name.clone()), columns: Vec::new(), at: None };
    let alias = Some(alias.take().unwrap_or_else(plain));
    *table = TableFactor::Derived { lateral: false, subquery: Box::new(query(&sql)), alias, sample: None };
}

/// The name of a table of `information_schema`.
fn of_schema(name: &ObjectName) -> Option<String> {
    let parts: Vec<_> = name
        .0
        .iter()
        .map(|part| part.as_ident().map(|ident| ident.value.to_lowercase()))
        .collect::<Option<_>>()?;
    match parts.as_slice() {
        [schema, name] | [_, schema, name] if schema == "information_schema" => Some(name.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_catalog_are_queries() {
        query(COLUMNS);
        for (name, columns) in EMPTY {
            assert!(!columns.is_empty(), "{name}");
        }
    }
}
