//! Gathers what a file defines, imports and uses.
//!
//! A module within the file is a module of its own. A name that stands alone counts too, since a glob may
//! bring it, unless it is a variable of the function. Test code is left out.

use crate::tidy::source::{attributes_of, is_for_tests};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Ident, Item, Meta, UseTree, Visibility};

/// The name of a module: its parents' names and its own; empty for the root of the package.
pub(super) type Name = Vec<String>;

/// The parts of a module that imports are resolved by. An inline module is one of its own.
#[derive(Default)]
pub(super) struct Module {
    /// The file that it is in.
    pub(super) path: String,
    /// Items that it defines, modules left out.
    pub(super) items: BTreeMap<String, Definition>,
    /// Names that it imports. A type and a function may share a name, and so may imports under `cfg`.
    pub(super) imports: BTreeMap<String, Vec<Import>>,
    /// Modules and enums of which it imports all names.
    pub(super) globs: Vec<Import>,
    /// Paths that its code uses, as they are written.
    pub(super) used: BTreeSet<Name>,
}

/// An item, or several of the same name.
#[derive(Default)]
pub(super) struct Definition {
    /// Whether more than the module and those inside of it see the item.
    pub(super) is_public: bool,
    /// The variants of an enum.
    pub(super) variants: BTreeSet<String>,
}

/// A path that is imported.
pub(super) struct Import {
    pub(super) path: Name,
    /// Whether more than the module and those inside of it see the import.
    pub(super) is_public: bool,
}

/// Adds the module `name`, which is in the file at `path`, and those within.
pub(super) fn collect(modules: &mut BTreeMap<Name, Module>, name: Name, path: &str, file: &syn::File) {
    let mut collector = Collector { modules, path, at: Name::new(), variables: Vec::new() };
    collector.enter(name, |inside| inside.visit_file(file));
}

struct Collector<'m> {
    modules: &'m mut BTreeMap<Name, Module>,
    path: &'m str,
    /// The module that is visited.
    at: Name,
    /// The variables of each function that is visited, from the outermost.
    variables: Vec<BTreeSet<String>>,
}

impl Collector<'_> {
    fn enter(&mut self, name: Name, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.at, name);
        self.module().path = self.path.to_owned();
        visit(self);
        self.at = before;
    }

    fn module(&mut self) -> &mut Module {
        self.modules.entry(self.at.clone()).or_default()
    }

    fn import(&mut self, prefix: &Name, tree: &UseTree, is_public: bool) {
        let with = |ident: &Ident| {
            let mut path = prefix.clone();
            path.push(ident.to_string());
            path
        };
        match tree {
            UseTree::Path(path) => self.import(&with(&path.ident), &path.tree, is_public),
            UseTree::Name(name) => {
                let path = with(&name.ident);
                self.name(last_name(&path).cloned(), path, is_public);
            }
            UseTree::Rename(rename) => {
                self.name(Some(rename.rename.to_string()), with(&rename.ident), is_public)
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.import(prefix, item, is_public));
            }
            UseTree::Glob(_) => {
                self.module().used.insert(prefix.clone());
                self.module().globs.push(Import { path: prefix.clone(), is_public });
            }
        }
    }

    fn name(&mut self, name: Option<String>, path: Name, is_public: bool) {
        self.module().used.insert(path.clone());
        if let Some(name) = name {
            self.module().imports.entry(name).or_default().push(Import { path, is_public });
        }
    }

    /// A name that stands alone. Variables are small, and what has a capital is none.
    fn use_alone(&mut self, name: String) {
        if !self.variables.iter().any(|variables| variables.contains(&name)) {
            self.module().used.insert(vec![name]);
        }
    }

    /// Paths in what a macro or an attribute is given. Of the names that stand alone, only what looks like an
    /// item: `Name`, `name(…)` and `name!`, but no field and no method.
    fn tokens(&mut self, tokens: TokenStream, may_stand_alone: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |at: usize, sign: char| match tokens.get(at) {
            Some(TokenTree::Punct(punct)) => punct.as_char() == sign,
            _ => false,
        };
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.tokens(group.stream(), may_stand_alone),
                TokenTree::Ident(first) => {
                    let is_field = at > 0 && is(at - 1, '.') && !(at > 1 && is(at - 2, '.'));
                    let mut path = vec![first.to_string()];
                    while is(at + 1, ':')
                        && is(at + 2, ':')
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 3)
                    {
                        path.push(next.to_string());
                        at += 3;
                    }
                    if path.len() > 1 {
                        self.module().used.insert(path);
                    } else if may_stand_alone && !is_field {
                        let is_called = match tokens.get(at + 1) {
                            Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Parenthesis,
                            Some(TokenTree::Punct(punct)) => {
                                punct.as_char() == '!' && punct.spacing() == Spacing::Alone
                            }
                            _ => false,
                        };
                        let name = first.to_string();
                        if is_called || is_capital(&name) {
                            self.use_alone(name);
                        }
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn visit_function(&mut self, variables: Variables, visit: impl FnOnce(&mut Self)) {
        self.variables.push(variables.0);
        visit(self);
        self.variables.pop();
    }
}

/// The name that a path ends with: `b` for `a::b::{self}`, which means the module `b` and no function `b`.
pub(super) fn last_name(path: &[String]) -> Option<&String> {
    path.iter().rfind(|name| *name != "self")
}

fn is_capital(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}

/// The name of an item that is no module, and who sees it.
fn defined(item: &Item) -> Option<(&Ident, bool)> {
    let (ident, visibility) = match item {
        Item::Const(item) => (&item.ident, &item.vis),
        Item::Enum(item) => (&item.ident, &item.vis),
        Item::Fn(item) => (&item.sig.ident, &item.vis),
        Item::Static(item) => (&item.ident, &item.vis),
        Item::Struct(item) => (&item.ident, &item.vis),
        Item::Trait(item) => (&item.ident, &item.vis),
        Item::TraitAlias(item) => (&item.ident, &item.vis),
        Item::Type(item) => (&item.ident, &item.vis),
        Item::Union(item) => (&item.ident, &item.vis),
        Item::Macro(item) => return Some((item.ident.as_ref()?, false)),
        _ => return None,
    };
    Some((ident, is_public(visibility)))
}

fn is_public(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes_of(item)) {
            return;
        }
        if let Some((ident, is_public)) = defined(item) {
            let definition = self.module().items.entry(ident.to_string()).or_default();
            definition.is_public |= is_public;
            if let Item::Enum(item) = item {
                definition.variants.extend(item.variants.iter().map(|variant| variant.ident.to_string()));
            }
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.content.is_some() {
            let mut name = self.at.clone();
            name.push(module.ident.to_string());
            self.enter(name, |inside| visit::visit_item_mod(inside, module));
        }
    }

    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        // What begins with `::` is another package.
        if import.leading_colon.is_none() {
            self.import(&Name::new(), &import.tree, is_public(&import.vis));
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        let mut variables = Variables::default();
        variables.visit_item_fn(function);
        self.visit_function(variables, |inside| visit::visit_item_fn(inside, function));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        let mut variables = Variables::default();
        variables.visit_impl_item_fn(function);
        self.visit_function(variables, |inside| visit::visit_impl_item_fn(inside, function));
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        let mut variables = Variables::default();
        variables.visit_trait_item_fn(function);
        self.visit_function(variables, |inside| visit::visit_trait_item_fn(inside, function));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut names: Name = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_some() {
            names.clear();
        }
        match names.len() {
            0 => {}
            1 => self.use_alone(names.remove(0)),
            _ => _ = self.module().used.insert(names),
        }
        visit::visit_path(self, path);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        // A constant or a variant: the name of a variable is small.
        let name = pattern.ident.to_string();
        if is_capital(&name) {
            self.use_alone(name);
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone(), true);
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta
            && !list.path.is_ident("cfg")
            && !list.path.is_ident("cfg_attr")
        {
            self.tokens(list.tokens.clone(), false);
        }
    }

    // What an item consists of may be for tests alone, too.

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            syn::ImplItem::Macro(item) => &item.attrs,
            _ => return,
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        let attributes = match item {
            syn::TraitItem::Const(item) => &item.attrs,
            syn::TraitItem::Fn(item) => &item.attrs,
            syn::TraitItem::Type(item) => &item.attrs,
            syn::TraitItem::Macro(item) => &item.attrs,
            _ => return,
        };
        if !is_for_tests(attributes) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if !is_for_tests(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !is_for_tests(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_stmt_macro(&mut self, call: &'ast syn::StmtMacro) {
        if !is_for_tests(&call.attrs) {
            visit::visit_stmt_macro(self, call);
        }
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        let attributes: &[Attribute] = match expression {
            Expr::Assign(it) => &it.attrs,
            Expr::Block(it) => &it.attrs,
            Expr::Call(it) => &it.attrs,
            Expr::ForLoop(it) => &it.attrs,
            Expr::If(it) => &it.attrs,
            Expr::Macro(it) => &it.attrs,
            Expr::Match(it) => &it.attrs,
            Expr::MethodCall(it) => &it.attrs,
            Expr::Struct(it) => &it.attrs,
            _ => &[],
        };
        if !is_for_tests(attributes) {
            visit::visit_expr(self, expression);
        }
    }
}

/// The variables that a function has, its parameters included.
#[derive(Default)]
struct Variables(BTreeSet<String>);

impl<'ast> Visit<'ast> for Variables {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        let name = pattern.ident.to_string();
        if !is_capital(&name) {
            self.0.insert(name);
        }
        visit::visit_pat_ident(self, pattern);
    }
}
